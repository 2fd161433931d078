/* devices.h - the device's side of a breakdown: for breakdown.c. */
#ifndef PROFD_STORE_BREAKDOWN_DEVICES_H
#define PROFD_STORE_BREAKDOWN_DEVICES_H

#include "breakdown.h"

/* What the devices share. */
struct breakdown_shared {
	struct breakdown *breakdown;
	const struct activity_thread *step_thread; /* NULL: nothing is known of it */
	int64_t *call_starts;			   /* sorted */
	size_t *near;				   /* by thread of the activity: the segment that was asked for last */
	uint32_t *started; /* by call: 1 + index of the device on which an operation of it has started */
};

/* Fills the device of this index, whose operations are those from `from` to before `to`, sorted by start. False: no memory. */
bool breakdown_device(const struct breakdown_shared *shared, size_t index, size_t from, size_t to);

#endif
