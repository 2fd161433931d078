/* derive_boundaries.c - see derive_boundaries.h. No locks. */
#include "derive_boundaries.h"
#include "proto/base/array.h"
#include "proto/limits.h"

#include <stdlib.h>

static int compare_boundaries(const void *a, const void *b)
{
	const struct boundary *x = a, *y = b;
	return ORDER(x->start, y->start);
}

uint32_t boundaries_find(const struct boundaries *boundaries, int64_t time)
{
	if (time < 0)
		return 0;
	size_t low = ARRAY_BEFORE(boundaries->count, middle, boundaries->steps[middle].start <= (uint64_t)time);
	if (low == 0 || (uint64_t)time >= boundaries->steps[low - 1].end)
		return 0;
	return boundaries->steps[low - 1].ordinal;
}

uint64_t boundaries_median(const struct boundaries *boundaries)
{
	size_t count = boundaries->count, half = count / 2;
	uint64_t *durations = count ? malloc(count * sizeof *durations) : NULL, median = 0;
	if (!durations)
		return 0;
	for (size_t i = 0; i < count; i++)
		durations[i] = boundaries->steps[i].end - boundaries->steps[i].start;
	qsort(durations, count, sizeof *durations, array_compare_unsigned);
	median = count % 2 ? durations[half] : (durations[half - 1] + durations[half]) / 2;
	free(durations);
	return median;
}

int boundaries_load(struct boundaries *ret, struct store *store)
{
	struct boundaries boundaries = {0};
	size_t capacity = 0;
	sqlite3_stmt *statement =
		store_prepare(store, "SELECT step, start, duration FROM steps WHERE step IS NOT NULL AND start >= 0");
	while (statement && sqlite3_step(statement) == SQLITE_ROW && boundaries.count < LIMIT_STEPS) {
		if (!ARRAY_GROW(boundaries.steps, boundaries.count, capacity))
			break;
		uint64_t start = (uint64_t)sqlite3_column_int64(statement, 1);
		boundaries.steps[boundaries.count++] =
			(struct boundary){start, start + (uint64_t)sqlite3_column_int64(statement, 2),
					  (uint32_t)sqlite3_column_int64(statement, 0)};
	}
	sqlite3_finalize(statement);
	if (boundaries.count)
		qsort(boundaries.steps, boundaries.count, sizeof *boundaries.steps, compare_boundaries);
	*ret = boundaries;
	return store->error;
}
