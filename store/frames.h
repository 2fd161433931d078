/* frames.h - finds the range or operator in which each launch was made. It goes once over launches, ranges and
 * operators by thread and time, with a stack of the open ones. It writes range_devices, and sums device time by name
 * and step; operators are folded as in fold.h. */
#ifndef PROFD_STORE_FRAMES_H
#define PROFD_STORE_FRAMES_H

#include "derive_boundaries.h"
#include "device.h"

/* A call with what it launched. A range is opened before a call and closed after it, never inside of it. But the
 * call's times come from another clock, so the call may seem to begin before the range that was opened right before
 * it. Therefore the range is found by `moment`: the call's start plus the clock error, but not later than the call's
 * middle. */
struct launch {
	uint32_t correlation, step, thread;
	uint32_t operations;
	uint64_t row;		  /* in api_calls; 0 = the call's record is missing */
	uint64_t start, duration; /* of the call; CLOCK_MONOTONIC ns */
	uint64_t moment;	  /* finds the range */
	uint64_t device_time;
	union {
		uint64_t first; /* start of the first operation; 0 = none has a time */
		uint64_t range; /* in `located`: the innermost open one; 0 = none */
	};
	uint64_t last; /* end of the last operation */
};

/* By thread and moment of the call. */
int frames_compare_launches(const void *a, const void *b);
/* Gives each of `launches` its range, and puts it into `located`. Errors stay in the sorters and the store. */
void frames_run(struct store *store, struct device *device, const struct boundaries *boundaries,
		struct sorter *launches, struct sorter *located);

#endif
