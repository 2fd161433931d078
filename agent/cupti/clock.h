/* clock.h - converts times of CUPTI's clock into CLOCK_MONOTONIC: both clocks are read together again and again, and
 * times are converted along straight lines between neighbouring readings. Nothing is assumed about CUPTI's clock except
 * that it runs evenly for a while: it may be CLOCK_REALTIME, ticks of the TSC, or a clock that another tool's callback
 * gives.
 *
 * Any thread may add a reading; if another thread is adding one at the same time, it gives up. Any thread may read the
 * list without a lock, because it only grows within a session. */
#ifndef PROFD_AGENT_CUPTI_CLOCK_H
#define PROFD_AGENT_CUPTI_CLOCK_H

#include <stdint.h>

/* Reads CUPTI's clock; 0, or another number where it does not answer. */
typedef int (*clock_reader)(uint64_t *ret);

/* Forgets all readings. No other thread uses the clock. 0 or -ENOMEM. */
int clock_begin(clock_reader reader);
/* Takes a reading, unless the last one is younger than `spacing` ns. 0, or the negative errno of a clock that does not
 * answer. */
int clock_sample(uint64_t spacing);

/* A reader's place in the list: all zero at first. Belongs to one thread at a time. */
struct clock_cursor {
	uint64_t from, to; /* the cursor holds for CUPTI's ticks between these */
	uint64_t base_ticks, base;
	double rate; /* ns a tick */
	uint64_t error;
	uint32_t count; /* how many readings there were */
};

/* CLOCK_MONOTONIC ns of CUPTI's `ticks` (not 0). cursor->error: by how many ns that may be wrong. */
uint64_t clock_convert(struct clock_cursor *cursor, uint64_t ticks);

/* ns between two times that `cursor` has converted, `end` last, and that lie `ticks` of CUPTI's clock apart. Where
 * ticks are ns this returns the ticks themselves, because the lines of neighbouring readings meet only within their
 * error. 0 where the two lie in the wrong order. */
uint64_t clock_between(const struct clock_cursor *cursor, uint64_t start, uint64_t end, uint64_t ticks);

/* By how many ns a time of the session may be wrong at most. *ret_stepped: the clock jumped, or changed its rate.
 * *ret_silent: the clock no longer answers. */
uint64_t clock_error(int *ret_stepped, int *ret_silent);

#endif
