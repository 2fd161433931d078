/* histogram.h - counts durations by size. No locks. */
#ifndef PROFD_DAEMON_CORE_HISTOGRAM_H
#define PROFD_DAEMON_CORE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS_MAX 12
/* Zero-initialised except for `bounds`. */
struct histogram {
	const uint64_t *bounds; /* ns, ascending */
	unsigned bound_count;	/* at most HISTOGRAM_BUCKETS_MAX */
	uint64_t counts[HISTOGRAM_BUCKETS_MAX + 1], sum;
};
void histogram_add(struct histogram *histogram, uint64_t ns);

#endif
