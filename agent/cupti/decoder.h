/* decoder.h - a record of CUPTI's becomes an event: what cannot belong to the recording is kept back; times, names and threads are converted; it
 * is written through the sink. */
#ifndef PROFD_AGENT_CUPTI_DECODER_H
#define PROFD_AGENT_CUPTI_DECODER_H

#include "calls.h"
#include "clock.h"
#include "deliver.h"

#include "agent/sink/sink.h"

#include <stdatomic.h>

/* Threads, of which a driver call may wait for the runtime call around it. */
#define WAITING 64u
#define WAITING_CALLS 4u
/* Operations and calls that are held against each other at a time: powers of two. */
#define PAIRS 8192u
/* Names of kernels by address: direct-mapped. */
#define NAMES 256u

struct waiting {
	uint32_t thread, correlation, count;
	struct event_api_call calls[WAITING_CALLS];
};

/* The start of the call and of the first device operation of a correlation id, in ticks; 0 = not seen. */
struct pair {
	uint32_t correlation;
	uint64_t call, operation;
};

/* CUPTI keeps the text of a name as long as it delivers records that point to it, and maybe no longer. So what we know of an address
 * holds for one buffer. */
struct named {
	const char *name;
	uint32_t buffer, id;
};

/* One thread's at a time, whoever has set `taken`. */
struct decoder {
	_Atomic uint32_t taken;
	uint32_t generation;
	const struct deliver_settings *settings;
	struct sink_thread *sink;
	struct clock_cursor cursor;
	uint64_t from; /* first boundary; 0 = has not come */
	uint64_t now;
	int stale;
	uint64_t early;
	uint32_t buffer; /* number of the buffer that is being read */
	struct named kernels[NAMES];
	uint32_t names[2][CALLS_MOST]; /* string ids by domain and callback id */
	struct waiting waiting[WAITING];
	struct pair pairs[PAIRS];
};

/* A session begins: what was noted of devices and clocks in an earlier one is forgotten. */
void decoder_begin(void);

/* The decoder's taker has `sink` for the recording of this generation; what belongs to an earlier one is forgotten. */
void decoder_join(struct decoder *d, const struct deliver_settings *settings, struct sink_thread *sink,
		  uint32_t generation);

/* Writes the event of a record; `user`: the decoder. */
void decoder_write(void *user, const void *record);

/* Writes the calls of the driver API that no call of the runtime turned out to enclose. */
void decoder_write_waiting(struct decoder *d);

/* CLOCK_MONOTONIC ns: as in struct deliver_counts. */
uint64_t decoder_known_from(void);
uint64_t decoder_last(void);

#endif
