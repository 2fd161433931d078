/* derive_launches.h - the device's part of derive. It finds the call that launched each device operation, and with
 * the call its step, thread and range. It removes operations that no step of the capture launched, unless they were
 * launched before the first step and still ran in the recording. It writes the tables launches, range_devices and
 * step_devices, and the totals by name. */
#ifndef PROFD_STORE_DERIVE_LAUNCHES_H
#define PROFD_STORE_DERIVE_LAUNCHES_H

#include "derive_boundaries.h"
#include "device.h"

struct launches {
	uint64_t removed; /* rows that do not belong to the capture */
	uint64_t mangled; /* names of kernels that could not be made readable */
	uint64_t bare;	  /* calls of a step that launched a kernel which was not recorded */
	uint64_t doubtful[EVENT_KIND_COUNT], unlaunched[EVENT_KIND_COUNT];
	uint64_t earlier
		[EVENT_KIND_COUNT]; /* kept, with no step: launched before the recording, and still running in it */
};

/* In the transaction that is open. 0 or a negative errno with store->sentence. */
int launches_run(struct store *store, struct device *device, const struct boundaries *boundaries, struct launches *ret);

#endif
