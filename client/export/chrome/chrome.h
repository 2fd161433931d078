/* chrome.h - the Chrome trace format, in the shape that Kineto (torch.profiler) gives it. See chrome.c. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_CHROME_H
#define PROFD_CLIENT_EXPORT_CHROME_CHROME_H

#include "client/reader/reader.h"
#include "client/export/slice.h"
#include "collectives.h"
#include "devices.h"
#include "functions.h"
#include "names.h"
#include "nesting.h"
#include "projections.h"

#include <stddef.h>

/* The programs that read traces want some things differently. */
enum chrome_shape {
	CHROME_PLAIN,
	/* torch_tb_profiler: API calls of category Runtime, no projections of ranges, 0 for "External id" where none. */
	CHROME_TENSORBOARD,
	/* HolisticTraceAnalysis's critical path: waits carry the number of their stream. */
	CHROME_CRITICAL_PATH,
};

/* What all events of a trace are written by. */
struct chrome_thread {
	uint32_t thread;
	uint32_t torch_id; /* 0 = not known */
	int64_t name;	   /* id; 0 = none */
	uint8_t lanes;
};

struct chrome {
	struct reader *reader;
	int64_t schema; /* of the file */
	enum chrome_shape shape;
	size_t index;		  /* of the capture in the file, from 0 */
	bool several;		  /* there are others in the file */
	const struct slice *part; /* of it that is written */
	const char *verdict;	  /* on it, as JSON; NULL = none */
	int64_t pid;
	char place[48]; /* `","pid":4242,"tid":` */
	size_t place_bytes;
	int64_t origin; /* what times count from: 0, the capture's base, or what comes before it: readers drop negative times */
	struct names names;
	struct devices devices;
	struct projections projections;
	struct collectives collectives;
	struct functions functions;
	struct nesting nesting;
	struct chrome_thread *threads; /* by number */
	size_t thread_count;
};

/* Sibling tracks are threads with numbers that no thread has: kernels give at most 4194304. Perfetto takes thread 0 for
 * the process's first one: a stream 0, and what is of no known thread, get a number of their own. */
#define CHROME_LANE_STRIDE 10000000
#define CHROME_TRACK_OF_0 (CHROME_LANE_STRIDE - 2)
static inline int64_t chrome_track(uint32_t thread, unsigned lane)
{
	return (int64_t)lane * CHROME_LANE_STRIDE + (thread ? thread : CHROME_TRACK_OF_0);
}

/* The devices of the first capture have their ids as processes, as Kineto has them; those of others have numbers behind all pids. */
static inline int64_t chrome_device_process(const struct chrome *c, uint32_t device)
{
	return c->index ? INT64_C(800000000) + (int64_t)c->index * 1000 + device : (int64_t)device;
}

/* Ids of flows are the file's, not a capture's. They stay below 2^53: some readers have no larger whole numbers. */
static inline uint64_t chrome_flow_id(const struct chrome *c, uint64_t id)
{
	return ((uint64_t)c->index << 44) + id;
}

#endif
