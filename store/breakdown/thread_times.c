/* thread_times.c - see thread_times.h. */
#include "thread_times.h"
#include "scan.h"

#include "proto/base/array.h"

#include <stdlib.h>

/* If `ran` may be off by more than this part of the stretch (a quarter), it says too little. */
#define MOST_ERROR 4

static bool add(struct thread_times *times, sqlite3_stmt *row)
{
	if (!ARRAY_GROW(times->looks, times->count, times->room))
		return false;
	struct thread_look look = {sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1),
				   sqlite3_column_int64(row, 2), sqlite3_column_int64(row, 3),
				   sqlite3_column_int64(row, 4)};
	const struct thread_look *last = times->count ? &times->looks[times->count - 1] : NULL;
	/* A file may say anything. A look whose figures go back is left out. */
	if (last && (look.time <= last->time || look.ran < last->ran || look.waited < last->waited))
		return true;
	times->looks[times->count++] = look;
	return true;
}

bool thread_times_load(sqlite3 *db, int64_t thread, struct thread_times *ret)
{
	sqlite3_stmt *statement;
	int result = SQLITE_ROW;
	*ret = (struct thread_times){0};
	if (!scan_has(db, "thread_times", NULL))
		return true;
	if (sqlite3_prepare_v2(db,
			       "SELECT time, cpu, waited, voluntary, involuntary FROM thread_times WHERE thread = ?1 "
			       "ORDER BY time, rowid",
			       -1, &statement, NULL) != SQLITE_OK)
		return false;
	sqlite3_bind_int64(statement, 1, thread);
	while ((result = sqlite3_step(statement)) == SQLITE_ROW && add(ret, statement)) {
	}
	sqlite3_finalize(statement);
	return result == SQLITE_DONE;
}

void thread_times_free(struct thread_times *times)
{
	free(times->looks);
	*times = (struct thread_times){0};
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* What the thread had done by `time`, and how far `ran` may be off. `time` lies between the looks a and b. */
static struct thread_use used_by(const struct thread_look *a, const struct thread_look *b, int64_t time)
{
	double part = (double)(time - a->time) / (double)(b->time - a->time);
	int64_t ran = b->ran - a->ran, gone = time - a->time, left = b->time - time;
	struct thread_use use = {.ran = a->ran + (int64_t)(part * (double)ran),
				 .waited = a->waited + (int64_t)(part * (double)(b->waited - a->waited)),
				 .voluntary = a->voluntary + (int64_t)(part * (double)(b->voluntary - a->voluntary)),
				 .involuntary =
					 a->involuntary + (int64_t)(part * (double)(b->involuntary - a->involuntary))};
	/* Between two looks it may have run as early, or as late, as there is room. */
	int64_t lowest = a->ran + (ran > left ? ran - left : 0), highest = a->ran + least(ran, gone);
	use.error = use.ran - lowest > highest - use.ran ? use.ran - lowest : highest - use.ran;
	return use;
}

/* False: there is no look before, or none after `time`. */
static bool used(const struct thread_times *times, int64_t time, struct thread_use *ret)
{
	size_t low = ARRAY_BEFORE(times->count, middle, times->looks[middle].time <= time);
	if (low == 0 || low == times->count)
		return false;
	*ret = used_by(&times->looks[low - 1], &times->looks[low], time);
	return true;
}

bool thread_times_add(const struct thread_times *times, int64_t start, int64_t end, struct thread_use *use)
{
	struct thread_use from, to;
	if (end <= start || !used(times, start, &from) || !used(times, end, &to))
		return false;
	int64_t ran = least(to.ran - from.ran, end - start);
	use->ran += ran;
	use->waited += least(to.waited - from.waited, end - start - ran);
	use->error += from.error + to.error;
	use->voluntary += to.voluntary - from.voluntary;
	use->involuntary += to.involuntary - from.involuntary;
	return true;
}

int64_t thread_times_slept(const struct thread_times *times, int64_t start, int64_t end)
{
	size_t low = ARRAY_BEFORE(times->count, middle, times->looks[middle].time <= start);
	size_t high = ARRAY_BEFORE(times->count, at, times->looks[at].time < end);
	if (low == 0 || high == times->count)
		return -1;
	const struct thread_look *a = &times->looks[low - 1], *b = &times->looks[high];
	int64_t awake = b->ran - a->ran + (b->waited - a->waited), all = b->time - a->time;
	return all > awake ? all - awake : 0;
}

bool thread_times_between(const struct thread_times *times, int64_t start, int64_t end, struct thread_use *ret)
{
	*ret = (struct thread_use){0};
	return thread_times_add(times, start, end, ret) && ret->error <= (end - start) / MOST_ERROR;
}
