/* frames.h - in which range or operator a launch was made: one pass over launches, ranges and operators in the order of their
 * threads and times, with the stack of what is open. Writes range_devices; sums device time by name and step, with the
 * folding of fold.h. Finish pool's thread. */
#ifndef PROFD_DAEMON_FRAMES_H
#define PROFD_DAEMON_FRAMES_H

#include "derive_boundaries.h"
#include "device.h"

/* A call with what it launched. */
struct launch {
	uint32_t correlation, step, thread;
	uint32_t operations;
	uint64_t row;		  /* in api_calls; 0 = the call's record is missing */
	uint64_t start, duration; /* of the call; CLOCK_MONOTONIC ns */
	uint64_t device_time;
	union {
		uint64_t first; /* start of what it launched first; 0 = without times */
		uint64_t range; /* in `located`: the innermost that was open; 0 = none */
	};
	uint64_t last; /* end of what ended last */
};

/* By thread and start of the call. */
int frames_compare_launches(const void *a, const void *b);
/* Passes `launches` on to `located`, with their ranges. doubt: ns by which the calls' times may be off from those of ranges.
 * Errors stay in the sorters and the store. */
void frames_run(struct store *store, struct device *device, const struct boundaries *boundaries,
		struct sorter *launches, struct sorter *located, uint64_t doubt);

#endif
