/* decoder.h - makes an event from a record of CUPTI: leaves out records that cannot belong to the recording; converts
 * times, names and threads; writes the event through the sink. */
#ifndef PROFD_AGENT_CUPTI_DECODER_H
#define PROFD_AGENT_CUPTI_DECODER_H

#include "calls.h"
#include "clock.h"
#include "deliver.h"

#include "agent/sink/sink.h"

#include <stdatomic.h>

/* How many threads may have driver calls that wait for the runtime call around them, and how many calls each. */
#define WAITING 64u
#define WAITING_CALLS 4u
/* How many operations and calls can be compared with each other at a time: a power of two. */
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

/* CUPTI keeps a name's text as long as it delivers records that point to it, and perhaps no longer. So the name at an
 * address is known only within one buffer. */
struct named {
	const char *name;
	uint32_t buffer, id;
};

/* Belongs to one thread at a time: the one that has set `taken`. */
struct decoder {
	_Atomic uint32_t taken;
	uint32_t generation;
	const struct deliver_settings *settings;
	struct sink_thread *sink;
	struct clock_cursor cursor;
	uint64_t from; /* first boundary; 0 = it has not come */
	uint64_t now;
	int stale;
	uint64_t early;
	uint32_t buffer; /* number of the buffer that is being read */
	struct named kernels[NAMES];
	uint32_t names[2][CALLS_MOST]; /* string ids by domain and callback id */
	struct waiting waiting[WAITING];
	struct pair pairs[PAIRS];
};

/* A session begins: forgets devices and clock errors of earlier sessions. */
void decoder_begin(void);

/* The thread that has taken the decoder writes through `sink`, for the recording of this generation. Forgets everything
 * of earlier recordings. */
void decoder_join(struct decoder *d, const struct deliver_settings *settings, struct sink_thread *sink,
		  uint32_t generation);

/* Writes the event of a record; `user`: the decoder. */
void decoder_write(void *user, const void *record);

/* Writes the waiting driver calls that no runtime call encloses. */
void decoder_write_waiting(struct decoder *d);

/* CLOCK_MONOTONIC ns: as in struct deliver_counts. */
uint64_t decoder_known_from(void);
uint64_t decoder_last(void);

#endif
