/* kernel_launches.h - how each kernel was launched, and how its calls differ: figures that its totals do not have.
 * One thread. */
#ifndef PROFD_CLIENT_REPORT_KERNEL_LAUNCHES_H
#define PROFD_CLIENT_REPORT_KERNEL_LAUNCHES_H

#include "views.h"

/* All calls of one name. Means are weighted by the time of the calls. */
struct kernel_launches_row {
	int64_t name;
	int64_t median_ns;
	double deviation_ns; /* standard deviation of a sample; below 0: there is only one call */
	/* The configuration that took most of the time. */
	int64_t grid[3], block[3], registers, shared;
	uint64_t configurations;
	double blocks, occupancy; /* of a multiprocessor; occupancy: 0 to 1. Below 0: not known */
};

struct kernel_launches;

/* Reads the calls that the options and the reader's part leave. Call kernel_launches_free() afterwards. */
struct kernel_launches *kernel_launches_read(const struct reader *reader, const struct report_options *options);
/* NULL: none of its calls has a time. */
const struct kernel_launches_row *kernel_launches_find(const struct kernel_launches *launches, int64_t name);
void kernel_launches_free(struct kernel_launches *launches);

#endif
