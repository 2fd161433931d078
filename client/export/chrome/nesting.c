/* nesting.c - finds the slices that do not nest: host and devices each for itself, in memory or sorted by SQLite. */
#include "nesting.h"
#include "proto/base/array.h"

#include "client/export/buffer.h"
#include "nesting_memory.h"
#include "nesting_tables.h"
#include "sweep.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

/* A list of slices, sorted as the sweep goes. */
struct list {
	enum nesting_table table;
	const struct nesting_slice *slices;
	uint32_t *order;
	size_t count;
};

/* By track, then what ends later, then what starts earlier. */
static int compare_slices(const void *left, const void *right, void *user)
{
	const struct nesting_slice *slices = user, *a = &slices[*(const uint32_t *)left],
				   *b = &slices[*(const uint32_t *)right];
	return ORDER(a->track, b->track) ?: ORDER(b->end, a->end) ?: ORDER(a->start, b->start);
}

static int sort_slices(struct list *list)
{
	list->order = malloc((list->count ? list->count : 1) * sizeof *list->order);
	if (!list->order)
		return -ENOMEM;
	for (size_t i = 0; i < list->count; i++)
		list->order[i] = (uint32_t)i;
	qsort_r(list->order, list->count, sizeof *list->order, compare_slices, (void *)list->slices);
	return 0;
}

/* Takes those of the list that come before such a slice of another table. */
static int sweep_list(struct sweep *s, const struct list *list, size_t *at, enum nesting_table table, uint64_t track,
		      int64_t start, int64_t end)
{
	for (; *at < list->count; (*at)++) {
		const struct nesting_slice *slice = &list->slices[list->order[*at]];
		bool before = slice->track != track   ? slice->track < track
			      : slice->end != end     ? slice->end > end
			      : slice->start != start ? slice->start < start
						      : table > list->table;
		if (!before)
			return 0;
		int error = sweep_take(s, list->table, list->order[*at], slice->track, slice->start, slice->end);
		if (error)
			return error;
	}
	return 0;
}

/* What the host did, and what devices did: no track has both, so that each is looked at alone, in half the memory. */
static const struct side {
	enum nesting_table from, to, list;
} sides[] = {{NESTING_RANGES, NESTING_PROJECTIONS, NESTING_FUNCTIONS},
	     {NESTING_PROJECTIONS, NESTING_TABLES, NESTING_PROJECTIONS}};

/* Many events: SQLite sorts them, in a temporary file where it must. */
static int sweep_sorted(struct sweep *s, const struct reader *r, const struct side *side,
			const struct nesting_options *options)
{
	const struct nesting_list *own = nesting_list(options, (int)side->list);
	struct list list = {.table = side->list, .slices = own ? own->slices : NULL, .count = own ? own->count : 0};
	struct buffer sql = {0};
	char part[512];
	/* Start/end ranges need no track, but a place in time. */
	int64_t first_range = reader_count(r, "SELECT min(start) FROM ranges", 0);
	if (first_range < s->nesting->earliest)
		s->nesting->earliest = first_range;
	for (int table = (int)side->from; table < (int)side->to; table++) {
		if (!nesting_has_table(table, options->schema))
			continue;
		int n = snprintf(part, sizeof part,
				 "%sSELECT %d AS kind, rowid, %s AS track, start, max(duration, 0), start + "
				 "max(duration, 0) AS finish FROM %s WHERE %s",
				 sql.used ? " UNION ALL " : "", table, nesting_sources[table].track,
				 nesting_sources[table].table, nesting_sources[table].taken);
		buffer_put(&sql, part, (size_t)n);
	}
	BUFFER_PUT(&sql, " ORDER BY track, finish DESC, start, kind");
	sqlite3_stmt *statement = NULL;
	int error = sql.failed ? -ENOMEM : sort_slices(&list), row = SQLITE_ERROR;
	if (!error && sqlite3_prepare_v2(r->db, sql.bytes, (int)sql.used, &statement, NULL) != SQLITE_OK)
		error = -EIO;
	size_t at = 0;
	while (!error && (row = sqlite3_step(statement)) == SQLITE_ROW) {
		enum nesting_table table = (enum nesting_table)sqlite3_column_int(statement, 0);
		uint64_t track = (uint64_t)sqlite3_column_int64(statement, 2);
		int64_t start = sweep_clamp(sqlite3_column_int64(statement, 3), -SWEEP_TIME_LIMIT),
			end = start + sweep_clamp(sqlite3_column_int64(statement, 4), 0);
		if (start < s->nesting->earliest)
			s->nesting->earliest = start;
		error = sweep_list(s, &list, &at, table, track, start, end);
		if (!error)
			error = sweep_take(s, table, sqlite3_column_int64(statement, 1), track, start, end);
	}
	sqlite3_finalize(statement);
	buffer_deinit(&sql);
	if (!error && row != SQLITE_DONE)
		error = -EIO;
	/* Nothing comes behind: what is left is before it. */
	if (!error)
		error = sweep_list(s, &list, &at, NESTING_TABLES, UINT64_MAX, 0, 0);
	free(list.order);
	return error;
}

static int compare_moves(const void *left, const void *right)
{
	const struct nesting_move *a = left, *b = right;
	return ORDER(a->row, b->row);
}

static int compare_tracks(const void *left, const void *right)
{
	const struct nesting_track *a = left, *b = right;
	return ORDER(a->track, b->track);
}

static int keep_calls(struct nesting *n, const struct nesting_rows *rows)
{
	size_t count = (size_t)(rows->last - rows->first + 1);
	if (!count || count > NESTING_CALLS)
		return 0;
	n->call_operators = calloc(count, sizeof *n->call_operators);
	if (!n->call_operators)
		return -ENOMEM;
	n->call_first = rows->first;
	n->call_count = count;
	return 0;
}

static int find_side(struct sweep *sweep, const struct side *side, struct reader *readers, unsigned threads,
		     const struct nesting_options *options)
{
	struct nesting_rows rows[NESTING_TABLES];
	size_t most = options->rows_in_memory ? options->rows_in_memory : NESTING_ROWS_IN_MEMORY, all = 0;
	int error = 0;
	for (int table = 0; table < NESTING_TABLES && !error; table++) {
		bool mine = table >= (int)side->from && table < (int)side->to;
		const struct nesting_list *list = nesting_list(options, table);
		rows[table] = (struct nesting_rows){.first = 0, .last = -1};
		if (mine && list)
			rows[table].last = (int64_t)list->count - 1;
		else if (mine && nesting_has_table(table, options->schema))
			error = nesting_rows(readers, nesting_sources[table].table, &rows[table]);
		all += (size_t)(rows[table].last - rows[table].first + 1);
	}
	if (!error && side->from == NESTING_RANGES)
		error = keep_calls(sweep->nesting, &rows[NESTING_API_CALLS]);
	if (error)
		return error;
	return all <= most ? nesting_sweep_memory(sweep, readers, threads, rows, options)
			   : sweep_sorted(sweep, readers, side, options);
}

int nesting_find(struct nesting *n, struct reader *readers, unsigned threads, const struct nesting_options *options)
{
	*n = (struct nesting){0};
	struct sweep sweep;
	int error = sweep_init(&sweep, n, readers);
	if (!error && (options->functions.count >= UINT32_MAX || options->projections.count >= UINT32_MAX))
		error = -EFBIG;
	for (size_t i = 0; i < sizeof sides / sizeof *sides && !error; i++)
		error = find_side(&sweep, &sides[i], readers, threads, options);
	if (!error)
		error = sweep_add_step_tracks(&sweep);
	sweep_deinit(&sweep);
	if (error) {
		nesting_deinit(n);
		return error;
	}
	for (int table = 0; table < NESTING_TABLES; table++)
		if (n->move_count[table])
			qsort(n->moves[table], n->move_count[table], sizeof *n->moves[table], compare_moves);
	if (n->track_count)
		qsort(n->tracks, n->track_count, sizeof *n->tracks, compare_tracks);
	return 0;
}

void nesting_deinit(struct nesting *n)
{
	for (int table = 0; table < NESTING_TABLES; table++)
		free(n->moves[table]);
	free(n->tracks);
	free(n->call_operators);
	*n = (struct nesting){0};
}
