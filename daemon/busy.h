/* busy.h - table step_devices: how long each device, and each of its streams, was busy with what a step launched. Takes
 * device operations in any order; memory is bounded by the sorter's and by the streams of one device. Finish pool's thread. */
#ifndef PROFD_DAEMON_BUSY_H
#define PROFD_DAEMON_BUSY_H

#include "sorter.h"
#include "store.h"

struct busy_operation {
	uint64_t start, end; /* CLOCK_MONOTONIC ns; start 0 = without times */
	uint32_t device, stream, context;
	uint32_t step : 24, kind : 8; /* LIMIT_STEPS is below 2^24; enum event_kind */
};

/* Memory that the sorter may take. */
#define BUSY_MEMORY (16u << 20)
void busy_init(struct sorter *operations, int folder);
/* Writes the rows. 0 or a negative errno with store->sentence. */
int busy_write(struct sorter *operations, struct store *store);

#endif
