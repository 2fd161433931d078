/* derive_busy.h - table step_devices: what each device, and each of its streams, did in each step. Time goes by interval: a step has what
 * lies in it of the operations, whenever they were launched. Counts, and the first and the last of them, go by launch. Takes
 * device operations in any order; memory is bounded by the sorter's and by the streams of one device. Finish pool's thread. */
#ifndef PROFD_STORE_DERIVE_BUSY_H
#define PROFD_STORE_DERIVE_BUSY_H

#include "derive_boundaries.h"
#include "base/sorter.h"
#include "file.h"

struct busy_operation {
	uint64_t start, end; /* CLOCK_MONOTONIC ns; start 0 = without times */
	uint32_t device, stream, context;
	uint32_t step : 24, kind : 8; /* LIMIT_STEPS is below 2^24, 0 = launched in none; enum event_kind */
};

/* Memory that the sorter may take. */
#define BUSY_MEMORY (16u << 20)
void busy_init(struct sorter *operations, int folder, struct memory *memory);

/* Devices whose clock runs ahead of the host's, so that operations seem to begin before their calls: ns that they are moved. */
#define SKEWS_MOST 64u
struct busy_skews {
	uint32_t count;
	struct {
		uint32_t device;
		uint64_t ns;
	} of[SKEWS_MOST];
};
uint64_t busy_skew(const struct busy_skews *skews, uint32_t device);

/* Writes the rows. 0 or a negative errno with store->sentence. */
int busy_write(struct sorter *operations, const struct boundaries *boundaries, const struct busy_skews *skews,
	       struct store *store);

#endif
