/* pair.h - how all programs of this bench time a pair: batches, with a pause between them for whoever drains buffers,
 * and the fastest batch. */
#ifndef PROFD_BENCH_PAIR_H
#define PROFD_BENCH_PAIR_H

#include <stdint.h>
#include <time.h>

#define PAIRS 4000
#define PAUSE_NS 2000000

static inline uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void pause_between(void)
{
	struct timespec t = {0, PAUSE_NS};
	nanosleep(&t, NULL);
}

#endif
