/* derive_busy.h - fills the table step_devices: what each device, and each of its streams, did in each step. Busy
 * time counts in the step in which it lies, whichever step launched the operation: an operation is cut at the
 * boundaries of steps. Numbers of operations, and the first and last of them, count in the step that launched them.
 * Operations may come in any order. Memory is bounded: it is that of the sorter, and that of the streams of one
 * device. */
#ifndef PROFD_STORE_DERIVE_BUSY_H
#define PROFD_STORE_DERIVE_BUSY_H

#include "derive_boundaries.h"
#include "proto/base/sorter.h"
#include "file.h"

struct busy_operation {
	uint64_t start, end; /* CLOCK_MONOTONIC ns; start 0 = without times */
	uint32_t device, stream, context;
	uint32_t step : 24,
		kind : 8; /* step: LIMIT_STEPS is below 2^24; 0 = no step launched it. kind: enum event_kind */
};

/* Memory that the sorter may take. */
#define BUSY_MEMORY (16u << 20)
void busy_init(struct sorter *operations, int folder, struct memory *memory);

/* The clock of a device may be ahead of the host's. Then its operations seem to begin before their calls. These are
 * the devices for which that is so, and the ns by which their operations are moved. */
#define SKEWS_MOST 64u
struct busy_skews {
	uint32_t count;
	struct {
		uint32_t device;
		uint64_t ns;
	} of[SKEWS_MOST];
};
uint64_t busy_skew(const struct busy_skews *skews, uint32_t device);

/* The error of an operation that is no kernel, copy, set or graph. */
#define BUSY_KIND_UNKNOWN "an operation of a device is of an unknown kind"

/* Writes the rows. 0 or a negative errno with store->sentence. */
int busy_write(struct sorter *operations, const struct boundaries *boundaries, const struct busy_skews *skews,
	       struct store *store);

#endif
