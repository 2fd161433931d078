/* derive.c - see derive.h. Thread: one of the finish pool. No locks. */
#include "derive.h"
#include "proto/limits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct boundary {
	uint64_t start, end; /* as the rows have them: ns since the base */
	uint32_t ordinal;
};

struct boundaries {
	struct boundary *steps; /* sorted by start */
	size_t count;
};

static int compare_boundaries(const void *a, const void *b)
{
	const struct boundary *x = a, *y = b;
	return (x->start > y->start) - (x->start < y->start);
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* The ordinal of the step in which `time` (ns since the base) lies, 0 where in none. */
static uint32_t find_step(const struct boundaries *boundaries, int64_t time)
{
	if (time < 0)
		return 0;
	size_t low = 0, high = boundaries->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (boundaries->steps[middle].start <= (uint64_t)time)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || (uint64_t)time >= boundaries->steps[low - 1].end)
		return 0;
	return boundaries->steps[low - 1].ordinal;
}

static int load_boundaries(struct store *store, struct boundaries *ret, struct derived *derived)
{
	struct boundaries boundaries = {0};
	size_t capacity = 0;
	sqlite3_stmt *statement =
		store_prepare(store, "SELECT step, start, duration FROM steps WHERE step IS NOT NULL AND start >= 0");
	while (statement && sqlite3_step(statement) == SQLITE_ROW && boundaries.count < LIMIT_STEPS) {
		if (boundaries.count == capacity) {
			size_t wanted = capacity ? capacity * 2 : 64;
			struct boundary *grown = realloc(boundaries.steps, wanted * sizeof *grown);
			if (!grown)
				break;
			boundaries.steps = grown;
			capacity = wanted;
		}
		uint64_t start = (uint64_t)sqlite3_column_int64(statement, 1);
		boundaries.steps[boundaries.count++] =
			(struct boundary){start, start + (uint64_t)sqlite3_column_int64(statement, 2),
					  (uint32_t)sqlite3_column_int64(statement, 0)};
	}
	sqlite3_finalize(statement);
	derived->steps = boundaries.count;
	uint64_t *durations = malloc((boundaries.count + 1) * sizeof *durations);
	if (durations && boundaries.count) {
		for (size_t i = 0; i < boundaries.count; i++)
			durations[i] = boundaries.steps[i].end - boundaries.steps[i].start;
		qsort(durations, boundaries.count, sizeof *durations, compare_numbers);
		size_t half = boundaries.count / 2;
		derived->step_ns = boundaries.count % 2 ? durations[half] : (durations[half - 1] + durations[half]) / 2;
	}
	free(durations);
	if (boundaries.count)
		qsort(boundaries.steps, boundaries.count, sizeof *boundaries.steps, compare_boundaries);
	*ret = boundaries;
	return store->error;
}

/* Do the spans of starts prove that every event of the kind lies in the step that it claims? */
static bool membership_proved(const struct totals *totals, enum total_kind kind, const struct boundaries *boundaries,
			      uint64_t base)
{
	if (totals->incomplete)
		return false;
	for (uint32_t step = 0; step < totals->step_capacity; step++) {
		const struct total_span *span = &totals->spans[kind][step];
		if (span->first > span->last)
			continue;
		int64_t first = (int64_t)(span->first - base), last = (int64_t)(span->last - base);
		if (find_step(boundaries, first) != step || find_step(boundaries, last) != step)
			return false;
		/* Outside of all steps at both ends may still mean inside of one between them. */
		if (step == 0 && boundaries->count && first < (int64_t)boundaries->steps[0].start &&
		    last >= (int64_t)boundaries->steps[0].start)
			return false;
	}
	return true;
}

struct move {
	int64_t row;
	uint32_t to;
};

/* Scans one table and puts right what claims the wrong step. `columns`: rowid, time, step, and for tables with totals
 * name, duration, self, domain, source. */
static int put_right(struct store *store, struct totals *totals, unsigned kind, const char *select, const char *update,
		     const struct boundaries *boundaries, uint64_t *moved)
{
	struct move *moves = NULL;
	size_t count = 0, capacity = 0;
	sqlite3_stmt *statement = store_prepare(store, select);
	int error = 0;
	while (statement && sqlite3_step(statement) == SQLITE_ROW) {
		uint32_t claimed = (uint32_t)sqlite3_column_int64(statement, 2);
		uint32_t step = find_step(boundaries, sqlite3_column_int64(statement, 1));
		if (step == claimed)
			continue;
		if (count == capacity) {
			size_t wanted = capacity ? capacity * 2 : 256;
			struct move *grown = realloc(moves, wanted * sizeof *grown);
			if (!grown) {
				error = -ENOMEM;
				break;
			}
			moves = grown;
			capacity = wanted;
		}
		moves[count++] = (struct move){sqlite3_column_int64(statement, 0), step};
		if (kind == EVENT_MARK)
			continue;
		struct total key = {.kind = (uint8_t)kind, .name = (uint32_t)sqlite3_column_int64(statement, 3)};
		if (kind == EVENT_RANGE) {
			key.domain = (uint32_t)sqlite3_column_int64(statement, 6);
			key.source = (uint8_t)sqlite3_column_int64(statement, 7);
		}
		totals_move(totals, key, claimed, step, (uint64_t)sqlite3_column_int64(statement, 4),
			    (uint64_t)sqlite3_column_int64(statement, 5));
	}
	sqlite3_finalize(statement);
	statement = count ? store_prepare(store, update) : NULL;
	for (size_t i = 0; statement && i < count && !store->error; i++) {
		if (moves[i].to)
			sqlite3_bind_int64(statement, 1, moves[i].to);
		else
			sqlite3_bind_null(statement, 1);
		sqlite3_bind_int64(statement, 2, moves[i].row);
		if (sqlite3_step(statement) != SQLITE_DONE)
			store_fail(store, "writing");
		sqlite3_reset(statement);
	}
	sqlite3_finalize(statement);
	free(moves);
	*moved += count;
	if (error && !store->error) {
		store->error = error;
		snprintf(store->sentence, sizeof store->sentence, "the daemon is out of memory");
	}
	return store->error;
}

static int membership(struct store *store, struct totals *totals, const struct boundaries *boundaries, uint64_t *moved)
{
	if (!membership_proved(totals, TOTAL_OPERATORS, boundaries, store->base))
		put_right(store, totals, EVENT_OPERATOR,
			  "SELECT rowid, start, step, name, duration, self FROM operators",
			  "UPDATE operators SET step = ? WHERE rowid = ?", boundaries, moved);
	if (!membership_proved(totals, TOTAL_RANGES, boundaries, store->base))
		put_right(store, totals, EVENT_RANGE,
			  "SELECT rowid, start, step, name, duration, self, domain, source FROM ranges",
			  "UPDATE ranges SET step = ? WHERE rowid = ?", boundaries, moved);
	if (!membership_proved(totals, TOTAL_MARKS, boundaries, store->base))
		put_right(store, totals, EVENT_MARK, "SELECT rowid, time, step FROM marks",
			  "UPDATE marks SET step = ? WHERE rowid = ?", boundaries, moved);
	return store->error;
}

/* A group of ranges that has lost its shortest or longest call is looked at again. More than a few of them are cheaper by one
 * GROUP BY over everything. */
#define STALE_MAX 4
static int refresh_stale(struct store *store, struct totals *totals)
{
	unsigned stale = 0;
	for (size_t i = 0; i < totals->capacity; i++)
		stale += totals->table[i].kind && totals->table[i].stale && totals->table[i].calls;
	if (stale > STALE_MAX)
		totals->incomplete = true;
	for (size_t i = 0; stale && i < totals->capacity && !totals->incomplete; i++) {
		struct total *total = &totals->table[i];
		if (!total->kind || !total->stale || !total->calls)
			continue;
		sqlite3_stmt *statement = store_prepare(
			store, "SELECT min(duration), max(duration) FROM ranges WHERE name IS ?1 AND step IS ?2 "
			       "AND domain IS ?3 AND source = ?4");
		if (!statement)
			return store->error;
		if (total->name)
			sqlite3_bind_int64(statement, 1, total->name);
		if (total->step)
			sqlite3_bind_int64(statement, 2, total->step);
		if (total->domain)
			sqlite3_bind_int64(statement, 3, total->domain);
		sqlite3_bind_int64(statement, 4, total->source);
		if (sqlite3_step(statement) == SQLITE_ROW) {
			total->min = (uint64_t)sqlite3_column_int64(statement, 0);
			total->max = (uint64_t)sqlite3_column_int64(statement, 1);
		}
		sqlite3_finalize(statement);
	}
	return store->error;
}

static void bind_id(sqlite3_stmt *statement, int at, uint32_t id)
{
	if (id)
		sqlite3_bind_int64(statement, at, id);
	else
		sqlite3_bind_null(statement, at);
}

static int write_totals(struct store *store, const struct totals *totals)
{
	sqlite3_stmt *operators =
		store_prepare(store, "INSERT INTO operator_totals (name, step, calls, self, total, min, max) "
				     "VALUES (?, ?, ?, ?, ?, ?, ?)");
	sqlite3_stmt *ranges =
		store_prepare(store, "INSERT INTO range_totals (name, step, calls, self, total, min, max, "
				     "domain, source) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
	for (size_t i = 0; i < totals->capacity && !store->error; i++) {
		const struct total *total = &totals->table[i];
		if (!total->kind || !total->calls)
			continue;
		sqlite3_stmt *statement = total->kind == EVENT_OPERATOR ? operators : ranges;
		/* name is NOT NULL there: an event without a name stands under 0, which is no string. */
		sqlite3_bind_int64(statement, 1, total->name);
		bind_id(statement, 2, total->step);
		sqlite3_bind_int64(statement, 3, (int64_t)total->calls);
		sqlite3_bind_int64(statement, 4, (int64_t)total->self);
		sqlite3_bind_int64(statement, 5, (int64_t)total->total);
		sqlite3_bind_int64(statement, 6, (int64_t)total->min);
		sqlite3_bind_int64(statement, 7, (int64_t)total->max);
		if (total->kind == EVENT_RANGE) {
			bind_id(statement, 8, total->domain);
			sqlite3_bind_int64(statement, 9, total->source);
		}
		if (sqlite3_step(statement) != SQLITE_DONE)
			store_fail(store, "writing");
		sqlite3_reset(statement);
	}
	sqlite3_finalize(operators);
	sqlite3_finalize(ranges);
	return store->error;
}

/* Without totals from memory (a daemon that took over, or more groups than memory is given to, or operators that were
 * moved). total() does not overflow, whatever a hostile agent wrote.
 *
 * folded: the operators that are one call with their parent (fold.h says when); unique ids make them paths without
 * branches, whatever was written. calls: the heads of these paths, with what the path adds to their own time. Flag 2 is
 * EVENT_FLAG_ASYNC, source 2 a range on no stack. */
static int write_totals_by_sql(struct store *store)
{
	_Static_assert(EVENT_FLAG_ASYNC == 2 && RANGE_SOURCE_NVTX_START_END == 2, "as the statements below have them");
	store_run(
		store,
		"CREATE TEMP TABLE folded (id INTEGER PRIMARY KEY, parent INTEGER, self INTEGER);"
		"INSERT OR IGNORE INTO folded SELECT c.id, c.parent, c.self FROM operators c JOIN operators p "
		"ON p.id = c.parent AND p.name = c.name AND p.thread = c.thread "
		"WHERE c.id IS NOT NULL AND NOT (c.flags | p.flags) & 2;"
		"CREATE INDEX temp.folded_parent ON folded (parent);"
		"DELETE FROM folded WHERE parent IN (SELECT parent FROM ("
		"SELECT parent FROM operators WHERE parent IN (SELECT parent FROM folded) AND NOT flags & 2 UNION ALL "
		"SELECT parent FROM ranges WHERE parent IN (SELECT parent FROM folded) AND NOT flags & 2 AND source != "
		"2) "
		"GROUP BY parent HAVING count(*) > 1)");
	store_run(store,
		  "CREATE TEMP TABLE calls (id INTEGER PRIMARY KEY, self INTEGER NOT NULL);"
		  "WITH RECURSIVE path (head, id, self) AS (SELECT parent, id, self FROM folded WHERE parent NOT IN "
		  "(SELECT id FROM folded) UNION ALL SELECT path.head, f.id, f.self FROM path JOIN folded f ON "
		  "f.parent = "
		  "path.id) INSERT INTO calls SELECT head, CAST(total(self) AS INTEGER) FROM path GROUP BY head");
	store_run(
		store,
		"INSERT INTO operator_totals SELECT coalesce(o.name, 0), o.step, count(*), "
		"CAST(total(o.self) + total(c.self) AS INTEGER), CAST(total(o.duration) AS INTEGER), min(o.duration), "
		"max(o.duration) FROM operators o LEFT JOIN calls c ON c.id = o.id "
		"WHERE o.id IS NULL OR o.id NOT IN (SELECT id FROM folded) GROUP BY o.name, o.step");
	return store_run(store,
			 "DROP TABLE calls; DROP TABLE folded;"
			 "INSERT INTO range_totals SELECT coalesce(name, 0), domain, source, step, count(*), "
			 "CAST(total(self) AS INTEGER), CAST(total(duration) AS INTEGER), min(duration), max(duration) "
			 "FROM ranges GROUP BY name, domain, source, step");
}

/* One row a thread: of each column the last value that says something. */
static int merge_threads(struct store *store)
{
	return store_run(
		store,
		"CREATE TEMP TABLE merged (thread INTEGER PRIMARY KEY, pthread INTEGER, name INTEGER, torch_id "
		"INTEGER);"
		"INSERT INTO merged SELECT thread, pthread, name, torch_id FROM threads WHERE true ORDER BY rowid "
		"ON CONFLICT (thread) DO UPDATE SET name = coalesce(excluded.name, name), "
		"pthread = CASE excluded.pthread WHEN 0 THEN pthread ELSE excluded.pthread END, "
		"torch_id = CASE excluded.torch_id WHEN 0 THEN torch_id ELSE excluded.torch_id END;"
		"DELETE FROM threads;"
		"INSERT INTO threads (flags, thread, pthread, name, torch_id) SELECT 0, thread, pthread, name, "
		"torch_id "
		"FROM merged;"
		"DROP TABLE merged");
}

int derive_run(struct store *store, struct totals *totals, bool full, struct derived *ret)
{
	struct boundaries boundaries = {0};
	struct derived derived = {0};
	totals_end(totals);
	store_begin(store);
	load_boundaries(store, &boundaries, &derived);
	if (!full)
		membership(store, totals, &boundaries, &derived.moved);
	free(boundaries.steps);
	if (!totals->incomplete)
		refresh_stale(store, totals);
	if (totals->incomplete)
		write_totals_by_sql(store);
	else
		write_totals(store, totals);
	derived.events = totals->incomplete ? store_count_events(store) : totals->events;
	merge_threads(store);
	store_run(store, "DROP TABLE ingested");
	if (store_commit(store)) {
		store_rollback(store);
		return store->error;
	}
	*ret = derived;
	return 0;
}
