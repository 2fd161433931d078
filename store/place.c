/* place.c - see place.h. No locks. */
#include "place.h"
#include "proto/base/array.h"
#include "proto/base/sorter.h"

#include <stdio.h>
#include <string.h>

/* Memory for rows that wait to be put into another step. */
#define MOVES_BYTES (8u << 20)

/* The column of a kind's start. */
static const char *time_column(unsigned kind)
{
	static const struct {
		unsigned kind;
		const char *role, *column;
	} columns[] = {
#define FIELD(NAME, name, offset, type, member, role, column, description) {EVENT_##NAME, #role, column},
#include "proto/events.def"
	};
	for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
		if (columns[i].kind == kind && strncmp(columns[i].role, "TIME", 4) == 0)
			return columns[i].column;
	return NULL;
}

/* Do the first and the last starts prove that every event of the kind lies in the step that it claims? */
static bool is_proved(const struct totals *totals, unsigned kind, const struct boundaries *boundaries, uint64_t base)
{
	if (totals->incomplete)
		return false;
	for (uint32_t step = 0; step < totals->step_capacity; step++) {
		const struct total_span *span = &totals->spans[kind][step];
		if (span->first > span->last)
			continue;
		int64_t first = (int64_t)(span->first - base), last = (int64_t)(span->last - base);
		if (boundaries_find(boundaries, first) != step || boundaries_find(boundaries, last) != step)
			return false;
		/* If both lie outside of all steps, an event between them may still lie inside of one. */
		if (step == 0 && boundaries->count && first < (int64_t)boundaries->steps[0].start &&
		    last >= (int64_t)boundaries->steps[0].start)
			return false;
	}
	return true;
}

struct move {
	int64_t row;
	uint32_t to, reserved;
};

static int compare_moves(const void *a, const void *b)
{
	const struct move *x = a, *y = b;
	return ORDER(x->row, y->row);
}

static void find_moves(struct store *store, struct totals *totals, unsigned kind, const char *select,
		       const struct boundaries *boundaries, struct sorter *moves)
{
	sqlite3_stmt *statement = store_prepare(store, select);
	while (statement && !moves->error && sqlite3_step(statement) == SQLITE_ROW) {
		uint32_t claimed = (uint32_t)sqlite3_column_int64(statement, 2);
		uint32_t step = boundaries_find(boundaries, sqlite3_column_int64(statement, 1));
		if (step == claimed)
			continue;
		struct move move = {.row = sqlite3_column_int64(statement, 0), .to = step};
		sorter_add(moves, &move);
		if (kind != EVENT_OPERATOR && kind != EVENT_RANGE)
			continue; /* the kind has no sums */
		struct total key = {.kind = (uint8_t)kind, .name = (uint32_t)sqlite3_column_int64(statement, 3)};
		if (kind == EVENT_RANGE) {
			key.domain = (uint32_t)sqlite3_column_int64(statement, 6);
			key.source = (uint8_t)sqlite3_column_int64(statement, 7);
		}
		totals_move(totals, key, claimed, step, (uint64_t)sqlite3_column_int64(statement, 4),
			    (uint64_t)sqlite3_column_int64(statement, 5));
	}
	sqlite3_finalize(statement);
}

/* Scans one table, and moves rows that claim the wrong step. */
static int put_right(struct store *store, struct totals *totals, unsigned kind, const struct boundaries *boundaries,
		     uint64_t *moved)
{
	/* The columns after rowid, time and step tell to which sums a row belongs. */
	static const char *const more[EVENT_KIND_COUNT] = {
		[EVENT_OPERATOR] = ", name, duration, self", [EVENT_RANGE] = ", name, duration, self, domain, source"};
	char select[256], update[128];
	snprintf(select, sizeof select, "SELECT rowid, %s, step%s FROM %s", time_column(kind),
		 more[kind] ? more[kind] : "", event_table(kind));
	snprintf(update, sizeof update, "UPDATE %s SET step = ? WHERE rowid = ?", event_table(kind));
	struct sorter moves;
	const struct move *move;
	sorter_init(&moves, store->folder, totals->memory, sizeof *move, MOVES_BYTES, compare_moves);
	find_moves(store, totals, kind, select, boundaries, &moves);
	sorter_rewind(&moves);
	sqlite3_stmt *statement = moves.total ? store_prepare(store, update) : NULL;
	while (statement && !store_over(store) && (move = sorter_next(&moves)) != NULL) {
		if (move->to)
			sqlite3_bind_int64(statement, 1, move->to);
		else
			sqlite3_bind_null(statement, 1);
		sqlite3_bind_int64(statement, 2, move->row);
		if (sqlite3_step(statement) != SQLITE_DONE)
			store_fail(store, "writing");
		sqlite3_reset(statement);
	}
	sqlite3_finalize(statement);
	*moved += moves.total;
	if (moves.error && !store->error) {
		store->error = moves.error;
		snprintf(store->sentence, sizeof store->sentence, "putting the records into their steps: %s",
			 strerror(-moves.error));
	}
	sorter_deinit(&moves);
	return store->error;
}

int place_stated(struct store *store, struct totals *totals, const struct boundaries *boundaries, uint64_t *moved)
{
	for (unsigned kind = 0; kind < EVENT_KIND_COUNT && !store->error; kind++)
		if (event_needs_step(kind) && !is_proved(totals, kind, boundaries, store->base))
			put_right(store, totals, kind, boundaries, moved);
	return store->error;
}

static bool any_without_step(struct store *store, const char *table)
{
	char sql[128];
	snprintf(sql, sizeof sql, "SELECT 1 FROM %s WHERE step IS NULL LIMIT 1", table);
	sqlite3_stmt *statement = store_prepare(store, sql);
	bool any = statement && sqlite3_step(statement) == SQLITE_ROW;
	sqlite3_finalize(statement);
	return any;
}

/* Returns how many rows were deleted. */
static uint64_t place_table(struct store *store, const char *table, const char *time, bool stays)
{
	char sql[512];
	store_run(store,
		  "CREATE TEMP TABLE IF NOT EXISTS bounds (start INTEGER PRIMARY KEY, stop INTEGER, step INTEGER); "
		  "INSERT OR IGNORE INTO bounds SELECT start, start + duration, step FROM steps");
	snprintf(sql, sizeof sql,
		 "UPDATE %s AS t SET step = (SELECT b.step FROM temp.bounds b WHERE b.start = (SELECT max(start) FROM "
		 "temp.bounds WHERE start <= t.%s) AND t.%s < b.stop) WHERE step IS NULL",
		 table, time, time);
	store_run(store, sql);
	if (stays)
		return 0;
	snprintf(sql, sizeof sql, "DELETE FROM %s WHERE step IS NULL", table);
	return store_run(store, sql) ? 0 : (uint64_t)sqlite3_changes64(store->db);
}

uint64_t place_by_time(struct store *store)
{
	uint64_t removed = 0;
	for (unsigned kind = 0; kind < EVENT_KIND_COUNT && !store->error; kind++) {
		enum event_place place = event_place_of(kind);
		bool timed = place == PLACE_TIME || place == PLACE_TIME_OR_NONE;
		if (timed && !event_needs_step(kind) && any_without_step(store, event_table(kind)))
			removed +=
				place_table(store, event_table(kind), time_column(kind), place == PLACE_TIME_OR_NONE);
	}
	store_run(store, "DROP TABLE IF EXISTS temp.bounds");
	return removed;
}
