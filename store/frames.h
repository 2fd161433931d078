/* frames.h - in which range or operator a launch was made: one pass over launches, ranges and operators in the order of their
 * threads and times, with the stack of what is open. Writes range_devices; sums device time by name and step, with the
 * folding of fold.h. Finish pool's thread. */
#ifndef PROFD_STORE_FRAMES_H
#define PROFD_STORE_FRAMES_H

#include "derive_boundaries.h"
#include "device.h"

/* A call with what it launched. Ranges open and close around calls, never in them; but a call's times have come through
 * another clock, so that its start may seem to lie before that of the range that was opened right before it. Its `moment`
 * lies behind the start by the clock error, or in its middle where it is too short for that. */
struct launch {
	uint32_t correlation, step, thread;
	uint32_t operations;
	uint64_t row;		  /* in api_calls; 0 = the call's record is missing */
	uint64_t start, duration; /* of the call; CLOCK_MONOTONIC ns */
	uint64_t moment;	  /* by which its range is found */
	uint64_t device_time;
	union {
		uint64_t first; /* start of what it launched first; 0 = without times */
		uint64_t range; /* in `located`: the innermost that was open; 0 = none */
	};
	uint64_t last; /* end of what ended last */
};

/* By thread and moment of the call. */
int frames_compare_launches(const void *a, const void *b);
/* Passes `launches` on to `located`, with their ranges. Errors stay in the sorters and the store. */
void frames_run(struct store *store, struct device *device, const struct boundaries *boundaries,
		struct sorter *launches, struct sorter *located);

#endif
