/* derive_totals.c - see derive_totals.h. No locks. */
#include "derive_totals.h"
#include "fold_rule.h"
#include "proto/base/array.h"

#include <stdlib.h>

/* When a range moves to another step, its old group may lose its shortest or longest call, which is then looked up
 * again. For more than a few groups, one GROUP BY over everything is cheaper. */
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

/* The order of SQL's GROUP BY: so a file does not show in which way it was added up. */
static int compare_groups(const void *a, const void *b)
{
	const struct total *x = *(const struct total *const *)a, *y = *(const struct total *const *)b;
	return ORDER(x->kind, y->kind)
		       ?: ORDER(x->name, y->name)
				  ?: ORDER(x->domain, y->domain)
					     ?: ORDER(x->source, y->source) ?: ORDER(x->step, y->step);
}

/* The groups in order; NULL where there is no memory. The caller frees it. */
static const struct total **in_order(const struct totals *totals, size_t *ret_count)
{
	const struct total **groups = malloc((totals->count + 1) * sizeof *groups);
	size_t count = 0;
	for (size_t i = 0; groups && i < totals->capacity; i++)
		if (totals->table[i].kind && totals->table[i].calls)
			groups[count++] = &totals->table[i];
	if (groups)
		qsort(groups, count, sizeof *groups, compare_groups);
	*ret_count = count;
	return groups;
}

static int write_groups(struct store *store, const struct total *const *groups, size_t count)
{
	sqlite3_stmt *operators =
		store_prepare(store, "INSERT INTO operator_totals (name, step, calls, self, total, min, max) "
				     "VALUES (?, ?, ?, ?, ?, ?, ?)");
	sqlite3_stmt *ranges =
		store_prepare(store, "INSERT INTO range_totals (name, step, calls, self, total, min, max, "
				     "domain, source) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
	for (size_t i = 0; i < count && !store->error; i++) {
		const struct total *total = groups[i];
		sqlite3_stmt *statement = total->kind == EVENT_OPERATOR ? operators : ranges;
		/* The column is NOT NULL: an event without a name has 0, which is the id of no string. */
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

#define FOLDED_ONES FOLD_SQL("operators", "temp.ones")

/* Totals by SQL, where the sums in memory are not complete: another process put in some records, or there were too
 * many groups, or operators moved to another step. total() does not overflow, whatever a hostile agent wrote.
 *
 * ones: one operator of each id. No agent writes an id twice, but a hostile one could, and a join must find at most
 * one row. folded: operators that are one call with their parent (fold_rule.h). Since ids are unique, they form paths
 * without branches. calls: the heads of these paths, with the own time of the rest of the path. */
static int write_by_sql(struct store *store)
{
	store_run(
		store,
		"CREATE TEMP TABLE ones (id INTEGER PRIMARY KEY, name INTEGER, thread INTEGER, flags INTEGER NOT NULL);"
		"INSERT OR IGNORE INTO ones SELECT id, name, thread, flags FROM operators WHERE id IS NOT NULL;"
		"CREATE TEMP TABLE folded (id INTEGER PRIMARY KEY, parent INTEGER, self INTEGER);"
		"WITH " FOLDED_ONES " INSERT OR IGNORE INTO temp.folded SELECT id, parent, self FROM folded;"
		"CREATE INDEX temp.folded_parent ON folded (parent)");
	store_run(store, "CREATE TEMP TABLE calls (id INTEGER PRIMARY KEY, self INTEGER NOT NULL);"
			 "WITH RECURSIVE " FOLD_SQL_PATH " INSERT INTO calls "
			 "SELECT head, CAST(total(self) AS INTEGER) FROM path GROUP BY head");
	store_run(store,
		  "INSERT INTO operator_totals (name, step, calls, self, total, min, max) "
		  "SELECT coalesce(o.name, 0), o.step, count(*), CAST(total(o.self) + total(c.self) AS INTEGER), "
		  "CAST(total(o.duration) AS INTEGER), min(o.duration), max(o.duration) "
		  "FROM operators o LEFT JOIN calls c ON c.id = o.id "
		  "WHERE o.id IS NULL OR o.id NOT IN (SELECT id FROM folded) GROUP BY o.name, o.step");
	store_run(store, "DROP TABLE calls; DROP TABLE folded; DROP TABLE ones");
	return store_run(store, "INSERT INTO range_totals (name, domain, source, step, calls, self, total, min, max) "
				"SELECT coalesce(name, 0), domain, source, step, count(*), "
				"CAST(total(self) AS INTEGER), CAST(total(duration) AS INTEGER), "
				"min(duration), max(duration) FROM ranges GROUP BY name, domain, source, step");
}

int derive_totals(struct store *store, struct totals *totals)
{
	if (!totals->incomplete)
		refresh_stale(store, totals);
	size_t count = 0;
	const struct total **groups = totals->incomplete ? NULL : in_order(totals, &count);
	int error = groups ? write_groups(store, groups, count) : write_by_sql(store);
	free(groups);
	return error;
}
