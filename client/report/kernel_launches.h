/* kernel_launches.h - how each kernel was launched, and how its calls differ: what its totals do not tell. One thread. */
#ifndef PROFD_CLIENT_REPORT_KERNEL_LAUNCHES_H
#define PROFD_CLIENT_REPORT_KERNEL_LAUNCHES_H

#include "views.h"

/* Of all calls of one name. Means are of time: a call counts as long as it took. */
struct kernel_launches_row {
	int64_t name;
	int64_t median_ns;
	double deviation_ns; /* of a sample; below 0: of one call there is none */
	/* Of the configuration that took most of the time. */
	int64_t grid[3], block[3], registers, shared;
	uint64_t configurations;
	double blocks, occupancy; /* of a multiprocessor; occupancy: 0 to 1. Below 0: not known */
};

struct kernel_launches;

/* What the options and the reader's part leave; to be freed. */
struct kernel_launches *kernel_launches_read(const struct reader *reader, const struct report_options *options);
/* NULL: none of its calls has a time. */
const struct kernel_launches_row *kernel_launches_find(const struct kernel_launches *launches, int64_t name);
void kernel_launches_free(struct kernel_launches *launches);

#endif
