/* totals.h - what derive needs, gathered while rows go by: calls (see fold.h) and times by (name, step); the steps;
 * and the first and last start of each kind in each step. By these derive sees without a scan whether each event lies
 * in the step that it claims. Memory is bounded: when a bound is reached, `incomplete` is set, and derive asks SQL
 * instead. Used by ingest's thread, then by derive's. */
#ifndef PROFD_STORE_TOTALS_H
#define PROFD_STORE_TOTALS_H

#include "fold.h"
#include "proto/base/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct total {
	uint8_t kind; /* EVENT_OPERATOR or EVENT_RANGE; 0 = empty place */
	uint8_t source;
	bool stale; /* min and max may belong to an event that was moved away */
	uint32_t name, domain, step;
	uint64_t calls, self, total, min, max;
};

struct total_step {
	uint64_t start, end; /* CLOCK_MONOTONIC ns */
	uint64_t number;
	uint32_t ordinal; /* 0 = no STEP record of this ordinal has come */
};

/* First and last start of the events that claim a step. first > last: there are none. */
struct total_span {
	uint64_t first, last;
};

struct totals {
	struct total *table; /* open addressing, capacity a power of two */
	size_t count, capacity;
	struct total_step *steps;		    /* [ordinal] */
	struct total_span *spans[EVENT_KIND_COUNT]; /* only kinds that state their step (event_needs_step) */
	size_t step_capacity;			    /* of `steps` and of each of `spans` */
	uint32_t step_last;			    /* largest ordinal of a STEP record */
	uint64_t events;
	struct memory *memory; /* not owned */
	struct fold fold;
	bool incomplete;
};

/* The address must stay as it is until deinit. */
void totals_init(struct totals *totals, struct memory *memory);
void totals_deinit(struct totals *totals);
/* The events that follow come from this chunk. */
void totals_chunk(struct totals *totals, uint32_t writer, uint32_t sequence);
/* Call it before the totals are read. */
void totals_end(struct totals *totals);
void totals_add(struct totals *totals, const union event_any *event);
/* Moves one range from the group of step `from` to that of step `to`. An operator cannot be moved: then the totals
 * are incomplete. */
void totals_move(struct totals *totals, struct total key, uint32_t from, uint32_t to, uint64_t duration, uint64_t self);

#endif
