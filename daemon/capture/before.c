/* before.c - see before.h. The page is the job's: a wrong value makes a wrong sentence, and nothing else. */
#include "before.h"

#include "proto/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first steps of a process are slow in all programs. */
#define SETTLED 10
#define FEWEST 16
/* A step is long from this many times the median on. Recording alone makes no step so long. */
#define LONG_TIMES 5
#define FEWEST_LONG 2
#define LEAST_PART 4 /* a quarter of the time */
/* The oldest entries are not read: the job's thread may overwrite them meanwhile. */
#define MARGIN 8

/* 0: not known. */
static uint64_t time_of(const struct status_page *page, uint64_t steps, uint64_t number)
{
	if (number > steps || steps - number >= LIMIT_STATUS_RING - MARGIN)
		return 0;
	uint64_t time = atomic_load_explicit(&page->ring[number % LIMIT_STATUS_RING], memory_order_relaxed);
	return time < LIMIT_DURATION_NS ? time : 0;
}

struct longs {
	uint64_t least;	     /* a step of at least so many ns is one of them */
	size_t count, apart; /* apart: steps from one to the next, at the most */
	uint64_t ns;
};

/* times: the newest first. */
static struct longs find_longs(const uint64_t *times, size_t n, uint64_t least)
{
	struct longs longs = {.least = least};
	size_t since = 0;
	for (size_t i = 0; i < n; i++) {
		since++;
		if (times[i] < least)
			continue;
		longs.apart = since > longs.apart ? since : longs.apart;
		since = 0;
		longs.count++;
		longs.ns += times[i];
	}
	return longs;
}

static uint64_t median(const uint64_t *times, size_t n)
{
	uint64_t sorted[LIMIT_STATUS_RING];
	memcpy(sorted, times, n * sizeof *times);
	qsort(sorted, n, sizeof *sorted, array_compare_unsigned);
	return sorted[n / 2];
}

void before_tell(const struct status_page *page, uint64_t first, uint64_t count, char *to, size_t bytes)
{
	uint64_t times[LIMIT_STATUS_RING], steps = atomic_load_explicit(&page->steps, memory_order_relaxed), all = 0,
					   time;
	size_t n = 0;
	*to = '\0';
	for (uint64_t number = first - 1; first && number > SETTLED && (time = time_of(page, steps, number)) > 0;
	     number--) {
		times[n++] = time;
		all += time;
	}
	if (n < FEWEST)
		return;
	struct longs longs = find_longs(times, n, LONG_TIMES * median(times, n));
	/* Steps that were late for another reason are mostly shorter. They do not count. */
	if (longs.count)
		longs = find_longs(times, n, longs.ns / longs.count / 2);
	if (longs.count < FEWEST_LONG || longs.ns < all / LEAST_PART)
		return;
	for (uint64_t i = 0; i < count; i++) {
		time = time_of(page, steps, first + i);
		if (!time || time >= longs.least)
			return;
	}
	double mean = (double)longs.ns / (double)longs.count / 1e6;
	snprintf(
		to, bytes,
		"%zu of the %zu steps before took %.*f ms in the mean, %.0f %% of their time, and none like them was recorded: --steps %zu would hold one",
		longs.count, n, mean < 10 ? 2 : 0, mean, 100.0 * (double)longs.ns / (double)all, longs.apart + 1);
}
