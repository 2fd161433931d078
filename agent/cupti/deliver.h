/* deliver.h - the buffers that CUPTI delivers: their records (record_walk.h) become events (decoder.h).
 *
 * deliver_begin and deliver_end: the agent's thread, between which deliver_buffer runs on any thread, mostly CUPTI's worker.
 * No lock is waited for: several buffers at a time have a decoder each. */
#ifndef PROFD_AGENT_CUPTI_DELIVER_H
#define PROFD_AGENT_CUPTI_DELIVER_H

#include "api.h"
#include "layout.h"

struct deliver_settings {
	const struct cupti_layout *layout;
	int all_calls;		     /* --api=all: nothing is left out */
	int pthread_numbers;	     /* CUPTI's thread numbers are pthread_self(), cut to 32 bits */
	cupti_subscriber subscriber; /* whose records they are; NULL: of the calls without one */
};

struct deliver_counts {
	uint64_t records; /* all */
	uint64_t early;	  /* device operations that begin before their call */
	/* CLOCK_MONOTONIC ns: when what was launched before CUPTI was on had come to its end on all devices, as far as can be
	 * told; and the start of the last record. 0 = nothing tells. */
	uint64_t known_from, last;
};

/* A session begins. Late buffers of the last one may still be on their way. */
void deliver_begin(const struct deliver_settings *settings);

/* Writes the records in data[0..valid). stale: the buffer was handed out in an earlier session, so that of what has no times
 * nothing is this one's. */
void deliver_buffer(uint8_t *data, size_t valid, int stale);

/* There is no room for the records: they are counted as lost. */
void deliver_none(uint8_t *data, size_t valid);

/* Writes what was held back: calls of the driver API that no call of the runtime turned out to enclose, devices, contexts,
 * streams and modules, names of threads. Waits for decoders that are at work at most until `deadline`. */
void deliver_end(uint64_t deadline, struct deliver_counts *ret);

#endif
