/* clock.h - CUPTI's clock against CLOCK_MONOTONIC: pairs of readings taken again and again, and straight lines between
 * neighbours. Nothing is assumed of CUPTI's clock but that it runs evenly for a while: it may be CLOCK_REALTIME, ticks of the
 * TSC, or what another tool's callback says.
 *
 * Readings are added by any thread; one that meets another at it goes without. They are read by any thread, without a lock:
 * the list only grows within a session. */
#ifndef PROFD_AGENT_CUPTI_CLOCK_H
#define PROFD_AGENT_CUPTI_CLOCK_H

#include <stdint.h>

/* Reads CUPTI's clock; 0, or not. */
typedef int (*clock_reader)(uint64_t *ret);

/* Forgets all readings. No other thread uses the clock. 0 or -ENOMEM. */
int clock_begin(clock_reader reader);
/* Takes a reading, unless there is one that is younger than `spacing` ns. 0, or the negative errno of a clock that does not
 * answer. */
int clock_sample(uint64_t spacing);

/* Where one reader is in the list: all zero at first. Belongs to one thread at a time. */
struct clock_cursor {
	uint64_t from, to; /* CUPTI's ticks between which the rest is right */
	uint64_t base_ticks, base;
	double rate; /* ns a tick */
	uint64_t error;
	uint32_t count; /* of readings that were there */
};

/* CLOCK_MONOTONIC ns of CUPTI's `ticks` (not 0). cursor->error: by how many ns it may be off. */
uint64_t clock_convert(struct clock_cursor *cursor, uint64_t ticks);

/* ns between two times that `cursor` has converted, the second one just before, and that lie `ticks` of CUPTI's clock apart:
 * the ticks themselves where they are ns, for neighbouring stretches meet only within their error. 0 where they lie in the
 * wrong order. */
uint64_t clock_between(const struct clock_cursor *cursor, uint64_t start, uint64_t end, uint64_t ticks);

/* Most ns by which any time of the session may be off. *ret_stepped: the clock jumped, or changed its rate. *ret_silent: it has
 * ceased to answer. */
uint64_t clock_error(int *ret_stepped, int *ret_silent);

#endif
