/* derive_launches.h - the device side's part of derive: finds for each device operation the call that launched it, and by it its step,
 * thread and range; removes what no step of the capture launched and what was over before it; writes launches, range_devices, step_devices and the
 * totals by name. Finish pool's thread. */
#ifndef PROFD_STORE_DERIVE_LAUNCHES_H
#define PROFD_STORE_DERIVE_LAUNCHES_H

#include "derive_boundaries.h"
#include "device.h"

struct launches {
	uint64_t removed; /* rows that are not the capture's */
	uint64_t mangled; /* names of kernels that were refused */
	uint64_t doubtful[EVENT_KIND_COUNT], unlaunched[EVENT_KIND_COUNT];
	uint64_t earlier[EVENT_KIND_COUNT]; /* kept, of no step: launched before the recording, and at work in it */
};

/* In the transaction that is open. 0 or a negative errno with store->sentence. */
int launches_run(struct store *store, struct device *device, const struct boundaries *boundaries, struct launches *ret);

#endif
