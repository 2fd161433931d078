/* deliver.h - takes the buffers that CUPTI delivers: their records (record_walk.h) become events (decoder.h).
 *
 * The agent's side calls deliver_begin and deliver_end. Between them deliver_buffer runs on any thread, mostly CUPTI's
 * worker. There is no lock: several buffers at a time have a decoder each. */
#ifndef PROFD_AGENT_CUPTI_DELIVER_H
#define PROFD_AGENT_CUPTI_DELIVER_H

#include "api.h"
#include "layout.h"

struct deliver_settings {
	const struct cupti_layout *layout;
	int all_calls;		     /* --api=all: nothing is left out */
	int pthread_numbers;	     /* CUPTI's thread numbers are pthread_self(), cut to 32 bits */
	cupti_subscriber subscriber; /* the subscriber whose records they are; NULL: we have none */
};

struct deliver_counts {
	uint64_t records; /* all */
	uint64_t early;	  /* device operations that begin before their call */
	/* CLOCK_MONOTONIC ns. known_from: all work that was launched before CUPTI was on had ended on all devices at
	 * this time, as far as is known. last: the start of the last record. 0 = not known. */
	uint64_t known_from, last;
};

/* A session begins. Late buffers of the last one may still be on their way. */
void deliver_begin(const struct deliver_settings *settings);

/* Writes the records in data[0..valid). stale: CUPTI got the buffer in an earlier session, so records without times do
 * not belong to this one. */
void deliver_buffer(uint8_t *data, size_t valid, int stale);

/* There is no room for the records: they are counted as lost. */
void deliver_none(uint8_t *data, size_t valid);

/* Writes what was kept until the end: driver calls that no runtime call encloses, devices, contexts, streams, modules
 * and names of threads. Waits for decoders that are at work, at most until `deadline`. */
void deliver_end(uint64_t deadline, struct deliver_counts *ret);

#endif
