/* devices.h - the device's side of a breakdown: for breakdown.c. */
#ifndef PROFD_STORE_BREAKDOWN_DEVICES_H
#define PROFD_STORE_BREAKDOWN_DEVICES_H

#include "breakdown.h"

/* What the devices share. */
struct breakdown_shared {
	struct breakdown *breakdown;
	const struct activity_thread *step_thread; /* NULL: nothing is known of it */
	int64_t *call_starts;			   /* sorted */
	size_t *near;	   /* by the thread's index in the activity: the segment that was asked for last */
	uint32_t *started; /* by call: 1 + index of the device on which an operation of the call has started */
};

/* Fills the device of this index. Its operations are [from, to), sorted by start. False: no memory. */
bool breakdown_device(const struct breakdown_shared *shared, size_t index, size_t from, size_t to);

#endif
