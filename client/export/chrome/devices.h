/* devices.h - what a capture knows of its devices, contexts, streams and events of CUDA, in memory. Read once, then
 * only looked up: no locks. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_DEVICES_H
#define PROFD_CLIENT_EXPORT_CHROME_DEVICES_H

#include "client/reader/reader.h"
#include "client/reader/occupancy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device {
	uint32_t id;
	bool described; /* the rest is known */
	bool used;	/* has done something */
	int64_t name;	/* id of a text */
	int64_t memory, registers_block, max_threads_block;
	struct occupancy_device limits;
};

struct device_context {
	uint32_t id, device;
};

struct device_stream {
	uint32_t context, id, device;
	int64_t name; /* id of a text; 0 = none */
};

/* A recording of an event: cudaEventRecord. */
struct device_event {
	uint32_t context, event, correlation, stream;
};

struct devices {
	struct device *all; /* by id: those that are described, and those that did something */
	size_t count;
	struct device_context *contexts; /* by id */
	size_t context_count;
	struct device_stream *streams; /* with a name, by device and id */
	size_t stream_count;
	struct device_event *events; /* by context, event, correlation */
	size_t event_count;
	/* Of calls of the runtime, where the capture has calls of the driver too, which may lie in them. Sorted. */
	uint32_t *runtime_ids;
	size_t runtime_id_count;
};

/* Recordings of events that are kept; waits for others do not say what they waited for. */
#define DEVICE_EVENTS_MAX 1000000
/* Correlation ids of the runtime's calls that are kept: 40 MB. */
#define DEVICE_RUNTIME_IDS_MAX 10000000

/* 0 or a negative errno; nothing where the file's schema is older than 2. */
int devices_load(struct devices *d, const struct reader *r, int64_t schema);
void devices_deinit(struct devices *d);

/* NULL: not described. */
const struct device *devices_find(const struct devices *d, uint32_t id);
/* A device did something. 0 or -ENOMEM. */
int devices_use(struct devices *d, uint32_t id);
/* Device of a context; where that was not told the first device. */
uint32_t devices_of_context(const struct devices *d, uint32_t context);
/* Name that the program gave to a stream; 0 = none. */
int64_t devices_stream_name(const struct devices *d, uint32_t device, uint32_t stream);
/* The recording that a wait with this correlation id is for: the event's last before it. NULL where it was not
 * recorded. */
const struct device_event *devices_event(const struct devices *d, uint32_t context, uint32_t event,
					 uint32_t correlation);

/* Has a call of the runtime this correlation id? */
bool devices_runtime_call(const struct devices *d, uint32_t correlation);

/* Makes profd_device(CONTEXT) known to queries on this connection; `d` must outlive it. 0 or -EIO. */
int devices_register(const struct devices *d, const struct reader *r);

#endif
