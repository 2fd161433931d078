/* memory_held.h - who held memory at the peak, and what was never given back. No locks. */
#ifndef PROFD_STORE_MEMORY_HELD_H
#define PROFD_STORE_MEMORY_HELD_H

#include "memory_calls.h"

/* What is known of one device. */
struct memory_device {
	int64_t level; /* bytes taken less bytes given back, so far */
	int64_t peak, peak_time;
	int64_t held;  /* bytes of the blocks that are known to have been held at the peak */
	bool any;      /* a peak is known */
	bool absolute; /* the allocator tells its totals */
};

/* Writes memory_holders and memory_leaks. `devices` has a struct memory_device, whose peak is known, for each (type,
 * device, 0). False: there is no memory. Errors stay in the store. */
bool memory_held(struct store *store, const struct memory_calls *calls, struct numbered *devices);

#endif
