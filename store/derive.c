/* derive.c - see derive.h. No locks. */
#include "derive.h"
#include "derive_boundaries.h"
#include "derive_launches.h"
#include "derive_load.h"
#include "place.h"
#include "proto/limits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
 * ones: of several operators of one id, which no agent writes, the first; so that nothing is joined with more than one row.
 * folded: the operators that are one call with their parent (fold.h says when); unique ids make them paths without
 * branches, whatever was written. calls: the heads of these paths, with what the path adds to their own time. Flag 2 is
 * EVENT_FLAG_ASYNC, source 2 a range on no stack. */
static int write_totals_by_sql(struct store *store)
{
	_Static_assert(EVENT_FLAG_ASYNC == 2 && RANGE_SOURCE_NVTX_START_END == 2, "as the statements below have them");
	store_run(
		store,
		"CREATE TEMP TABLE ones (id INTEGER PRIMARY KEY, name INTEGER, thread INTEGER, flags INTEGER NOT NULL);"
		"INSERT OR IGNORE INTO ones SELECT id, name, thread, flags FROM operators WHERE id IS NOT NULL;"
		"CREATE TEMP TABLE folded (id INTEGER PRIMARY KEY, parent INTEGER, self INTEGER);"
		"INSERT OR IGNORE INTO folded SELECT c.id, c.parent, c.self FROM operators c CROSS JOIN temp.ones p "
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
		"INSERT INTO operator_totals (name, step, calls, self, total, min, max) SELECT coalesce(o.name, 0), "
		"o.step, count(*), "
		"CAST(total(o.self) + total(c.self) AS INTEGER), CAST(total(o.duration) AS INTEGER), min(o.duration), "
		"max(o.duration) FROM operators o LEFT JOIN calls c ON c.id = o.id "
		"WHERE o.id IS NULL OR o.id NOT IN (SELECT id FROM folded) GROUP BY o.name, o.step");
	return store_run(store,
			 "DROP TABLE calls; DROP TABLE folded; DROP TABLE ones;"
			 "INSERT INTO range_totals (name, domain, source, step, calls, self, total, min, max) SELECT "
			 "coalesce(name, 0), domain, source, step, count(*), "
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

static bool any_row(struct store *store, const char *sql)
{
	sqlite3_stmt *statement = store_prepare(store, sql);
	bool any = statement && sqlite3_step(statement) == SQLITE_ROW;
	sqlite3_finalize(statement);
	return any;
}

/* What found no step when it was written: by its call, where a device was recorded, and by its time. */
static void derive_rest(struct store *store, struct device *device, bool cupti, const struct boundaries *boundaries,
			struct derived *derived)
{
	struct launches found = {0};
	struct notes notes = {0};
	store_doing(store, "finding what launched what");
	if (cupti && device->incomplete)
		derive_load(device, store);
	if (cupti)
		launches_run(store, device, boundaries, &found);
	found.removed += place_by_time(store);
	if (cupti)
		notes_find(&notes, store);
	derived->rest_failed = store->error != 0;
	derived->cupti = cupti;
	derived->mangled = found.mangled;
	derived->notes = notes;
	derived->events -= found.removed < derived->events ? found.removed : derived->events;
	memcpy(derived->doubtful, found.doubtful, sizeof derived->doubtful);
	memcpy(derived->unlaunched, found.unlaunched, sizeof derived->unlaunched);
	memcpy(derived->earlier, found.earlier, sizeof derived->earlier);
}

int derive_nothing(struct store *store, const struct totals *totals, struct derived *ret)
{
	struct boundaries boundaries = {0};
	struct derived derived = {.unordered = true};
	store_begin(store);
	boundaries_load(&boundaries, store);
	derived.steps = boundaries.count;
	derived.step_ns = boundaries_median(&boundaries);
	free(boundaries.steps);
	derived.events = totals->events ? totals->events : store_count_events(store);
	store_run(store, "DROP TABLE IF EXISTS ingested");
	*ret = derived;
	return store->error;
}

int derive_run(struct store *store, struct totals *totals, struct device *device, bool cupti_ran, bool full,
	       const char *no_rest, struct derived *ret)
{
	struct boundaries boundaries = {0};
	struct derived derived = {0};
	totals_end(totals);
	store_begin(store);
	boundaries_load(&boundaries, store);
	derived.steps = boundaries.count;
	derived.step_ns = boundaries_median(&boundaries);
	store_doing(store, "putting records into their steps");
	if (!full)
		place_stated(store, totals, &boundaries, &derived.moved);
	store_doing(store, "adding up operators and ranges");
	if (!totals->incomplete)
		refresh_stale(store, totals);
	if (totals->incomplete)
		write_totals_by_sql(store);
	else
		write_totals(store, totals);
	derived.events = totals->incomplete ? store_count_events(store) : totals->events;
	merge_threads(store);
	store_run(store, "DROP TABLE ingested");
	derived.simulated =
		any_row(store, "SELECT 1 FROM strings WHERE id IN (SELECT name FROM device_records) AND "
			       "substr(text, 1, length('" SIMULATED_DEVICE "')) = '" SIMULATED_DEVICE "' LIMIT 1");
	_Static_assert(COLLECTOR_CUPTI == 4, "as the statement below has it");
	bool cupti = cupti_ran || device->operations ||
		     any_row(store, "SELECT 1 FROM sessions UNION ALL SELECT 1 FROM steps WHERE collectors & 16 "
				    "UNION ALL SELECT 1 FROM kernel_records LIMIT 1");
	if (!store->error && !no_rest)
		derive_rest(store, device, cupti, &boundaries, &derived);
	else if (no_rest && (cupti || !full))
		text_copy(derived.trouble, sizeof derived.trouble, no_rest);
	free(boundaries.steps);
	*ret = derived;
	return store->error;
}
