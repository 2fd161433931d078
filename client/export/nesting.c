/* nesting.c - finds the slices that do not nest. The rows are read by several threads into one array, each its own part;
 * all else runs in the caller's thread.
 *
 * The sweep goes backwards in time: what ends last comes first, so that a range is seen before what it holds. That is the
 * order in which threads write their events, turned round, so that nothing needs sorting as a rule. */
#include "nesting.h"

#include "../../proto/events.h"
#include "scan.h"
#include "workers.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows of one job: some milliseconds. */
#define JOB_ROWS 32768

/* 48 bits of ns are 78 hours on either side of the base; what a broken file has beyond is taken for that. */
#define TIME_LIMIT (INT64_C(1) << 47)

struct span {
	int64_t start, duration; /* duration < 0: no such row, or one that needs no track */
	uint32_t thread;
	uint32_t group; /* index into `groups` */
};

static int64_t clamp(int64_t value, int64_t low)
{
	return value < low ? low : value >= TIME_LIMIT ? TIME_LIMIT - 1 : value;
}

struct step {
	uint32_t thread;
	int64_t start, end;
};

/* Open slices of one lane, the innermost last; only where they start matters when going backwards. */
struct lane {
	int64_t *starts;
	size_t used, size;
};

struct sweep {
	struct nesting *nesting;
	struct step *steps; /* by thread, then time; they do not overlap */
	size_t step_count;
	size_t move_size[NESTING_TABLES], thread_size;
	/* The thread in hand */
	uint32_t thread;
	bool begun;
	size_t steps_from, steps_at; /* steps [from, at) of the thread start before the slice in hand ends */
	struct lane lanes[NESTING_LANES];
};

/* Makes room for one more element in an array. */
static bool grow(void **array, size_t *size, size_t used, size_t element)
{
	if (used < *size)
		return true;
	size_t larger = *size ? *size * 2 : 64;
	void *grown = realloc(*array, larger * element);
	if (!grown)
		return false;
	*array = grown;
	*size = larger;
	return true;
}

static int sweep_thread(struct sweep *s, uint32_t thread)
{
	struct nesting *n = s->nesting;
	if (!grow((void **)&n->threads, &s->thread_size, n->thread_count, sizeof *n->threads))
		return -ENOMEM;
	n->threads[n->thread_count++] = (struct nesting_thread){.thread = thread, .lanes = 1};
	s->thread = thread;
	s->begun = true;
	for (unsigned i = 0; i < NESTING_LANES; i++)
		s->lanes[i].used = 0;
	size_t from = 0;
	while (from < s->step_count && s->steps[from].thread < thread)
		from++;
	s->steps_from = s->steps_at = from;
	while (s->steps_at < s->step_count && s->steps[s->steps_at].thread == thread)
		s->steps_at++;
	return 0;
}

/* Does the slice overlap a step without one holding the other? */
static bool crosses_step(struct sweep *s, int64_t start, int64_t end)
{
	while (s->steps_at > s->steps_from && s->steps[s->steps_at - 1].start >= end)
		s->steps_at--;
	if (s->steps_at == s->steps_from)
		return false;
	const struct step *last = &s->steps[s->steps_at - 1];
	if (end < last->end)
		return start < last->start;
	/* The last one ends before the slice does: the slice must not begin inside of any. */
	size_t low = s->steps_from, high = s->steps_at;
	while (low < high) { /* first step that starts at `start` or later */
		size_t middle = low + (high - low) / 2;
		if (s->steps[middle].start < start)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == s->steps_from)
		return false;
	const struct step *around = &s->steps[low - 1];
	return start < around->end && end > around->end;
}

static bool fits(struct lane *lane, int64_t start, int64_t end)
{
	while (lane->used && lane->starts[lane->used - 1] >= end)
		lane->used--;
	return lane->used == 0 || lane->starts[lane->used - 1] <= start;
}

/* Takes the next slice: thread by thread, the latest end first, of equal ends the earliest start first. */
static int sweep_take(struct sweep *s, enum nesting_table table, int64_t row, uint32_t thread, int64_t start,
		      int64_t end)
{
	if (!s->begun || s->thread != thread) {
		int error = sweep_thread(s, thread);
		if (error)
			return error;
	}
	struct nesting *n = s->nesting;
	unsigned lane = crosses_step(s, start, end) ? 1 : 0;
	while (lane < NESTING_LANES && !fits(&s->lanes[lane], start, end))
		lane++;
	if (lane < NESTING_LANES && end > start) {
		struct lane *on = &s->lanes[lane];
		if (!grow((void **)&on->starts, &on->size, on->used, sizeof *on->starts))
			return -ENOMEM;
		on->starts[on->used++] = start;
	}
	if (lane == 0)
		return 0;
	if (!grow((void **)&n->moves[table], &s->move_size[table], n->move_count[table], sizeof *n->moves[table]))
		return -ENOMEM;
	n->moves[table][n->move_count[table]++] = (struct nesting_move){
		.row = row,
		.thread = thread,
		.lane = lane < NESTING_LANES ? (uint8_t)lane : NESTING_ASYNC,
	};
	struct nesting_thread *own = &n->threads[n->thread_count - 1];
	if (lane < NESTING_LANES && own->lanes <= lane)
		own->lanes = (uint8_t)(lane + 1);
	return 0;
}

static int read_steps(struct sweep *s, const struct reader *r)
{
	sqlite3_stmt *statement;
	size_t size = 0;
	int error = 0, row;
	if (sqlite3_prepare_v2(
		    r->db,
		    "SELECT thread, start, duration FROM steps WHERE number > 0 ORDER BY thread, start, duration DESC",
		    -1, &statement, NULL) != SQLITE_OK)
		return -EIO;
	while (!error && (row = sqlite3_step(statement)) == SQLITE_ROW) {
		struct step step = {.thread = (uint32_t)sqlite3_column_int64(statement, 0)};
		step.start = clamp(sqlite3_column_int64(statement, 1), -TIME_LIMIT);
		step.end = step.start + clamp(sqlite3_column_int64(statement, 2), 0);
		const struct step *last = s->step_count ? &s->steps[s->step_count - 1] : NULL;
		if (last && last->thread == step.thread && last->end > step.start)
			continue; /* in a broken file: it has no track to keep free */
		if (!grow((void **)&s->steps, &size, s->step_count, sizeof *s->steps))
			error = -ENOMEM;
		else
			s->steps[s->step_count++] = step;
	}
	sqlite3_finalize(statement);
	return error ? error : row == SQLITE_DONE ? 0 : -EIO;
}

int nesting_rows(const struct reader *r, const char *table, struct nesting_rows *ret_rows)
{
	char sql[96];
	*ret_rows = (struct nesting_rows){.first = 0, .last = -1};
	snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
	ret_rows->count = reader_count(r, sql, -1);
	if (ret_rows->count <= 0)
		return ret_rows->count < 0 ? -EIO : 0;
	snprintf(sql, sizeof sql, "SELECT min(rowid) FROM %s", table);
	ret_rows->first = reader_count(r, sql, 0);
	snprintf(sql, sizeof sql, "SELECT max(rowid) FROM %s", table);
	ret_rows->last = reader_count(r, sql, -1);
	/* Rows arrive with rising numbers and none is deleted. */
	if (ret_rows->first < 0 || ret_rows->last - ret_rows->first >= INT32_MAX)
		return -EFBIG;
	return 0;
}

_Static_assert(RANGE_SOURCE_NVTX_START_END == 2, "the queries leave out start/end ranges");

/* Many events: SQLite sorts them, in a temporary file where it must. */
static int sweep_sorted(struct sweep *s, const struct reader *r)
{
	s->nesting->earliest =
		reader_count(r, "SELECT min((SELECT min(start) FROM ranges), (SELECT min(start) FROM operators))", 0);
	static const char sql[] = "SELECT 0, rowid, thread & 0xffffffff AS own, start, max(duration, 0) AS length, "
				  "start + max(duration, 0) AS finish "
				  "FROM ranges WHERE source <> 2 "
				  "UNION ALL SELECT 1, rowid, thread & 0xffffffff, start, max(duration, 0), start + "
				  "max(duration, 0) FROM operators "
				  "ORDER BY own, finish DESC, start";
	sqlite3_stmt *statement;
	int error = 0, row = SQLITE_ERROR;
	if (sqlite3_prepare_v2(r->db, sql, -1, &statement, NULL) != SQLITE_OK)
		return -EIO;
	while (!error && (row = sqlite3_step(statement)) == SQLITE_ROW) {
		int64_t start = clamp(sqlite3_column_int64(statement, 3), -TIME_LIMIT);
		error = sweep_take(s, sqlite3_column_int(statement, 0) ? NESTING_OPERATORS : NESTING_RANGES,
				   sqlite3_column_int64(statement, 1), (uint32_t)sqlite3_column_int64(statement, 2),
				   start, start + clamp(sqlite3_column_int64(statement, 4), 0));
	}
	sqlite3_finalize(statement);
	return error ? error : row == SQLITE_DONE ? 0 : -EIO;
}

/* The rows of both tables in memory: those of ranges, then those of operators, each at its rowid's place. */
struct load {
	struct reader *readers;
	struct nesting_rows rows[NESTING_TABLES];
	size_t spans_at[NESTING_TABLES + 1], jobs_at[NESTING_TABLES + 1];
	struct span *spans;
};

/* Where a job's spans go: that of row `first` is spans[0]. */
struct load_rows {
	struct span *spans;
	int64_t first;
};

static int load_row(void *user, sqlite3_value **row)
{
	const struct load_rows *rows = user;
	rows->spans[sqlite3_value_int64(row[0]) - rows->first] = (struct span){
		.thread = (uint32_t)sqlite3_value_int64(row[1]),
		.start = clamp(sqlite3_value_int64(row[2]), -TIME_LIMIT),
		.duration = sqlite3_value_int(row[4]) ? -1 : clamp(sqlite3_value_int64(row[3]), 0),
	};
	return 0;
}

static int load_job(void *user, unsigned worker, uint64_t job)
{
	static const char *const sql[NESTING_TABLES] = {
		[NESTING_RANGES] = "SELECT profd_row(rowid, thread, start, duration, source = 2) FROM ranges WHERE "
				   "rowid BETWEEN ? AND ?",
		[NESTING_OPERATORS] = "SELECT profd_row(rowid, thread, start, duration, 0) FROM operators WHERE rowid "
				      "BETWEEN ? AND ?",
	};
	const struct load *load = user;
	int table = job >= load->jobs_at[NESTING_OPERATORS] ? NESTING_OPERATORS : NESTING_RANGES;
	int64_t begin = (int64_t)(job - load->jobs_at[table]) * JOB_ROWS;
	struct load_rows rows = {
		.spans = load->spans + load->spans_at[table] + begin,
		.first = load->rows[table].first + begin,
	};
	int64_t last =
		rows.first + JOB_ROWS - 1 < load->rows[table].last ? rows.first + JOB_ROWS - 1 : load->rows[table].last;
	for (int64_t i = 0; i <= last - rows.first; i++)
		rows.spans[i] = (struct span){.duration = -1};
	return scan_rows(&load->readers[worker], sql[table], rows.first, last, load_row, &rows);
}

/* The spans of one thread, as indices in the order of arrival: one list a table. */
struct group {
	uint32_t thread;
	size_t from[NESTING_TABLES], to[NESTING_TABLES];
};

struct groups {
	struct group *all;
	size_t count, size;
	uint32_t *table; /* open addressing by thread: index + 1, 0 = free */
	size_t table_size;
	uint32_t *indices;
};

static size_t slot_of(const struct groups *g, uint32_t thread)
{
	size_t at = (size_t)(thread * UINT32_C(2654435761)) & (g->table_size - 1);
	while (g->table[at] && g->all[g->table[at] - 1].thread != thread)
		at = (at + 1) & (g->table_size - 1);
	return at;
}

/* Index of a thread's group, made where it is new; -ENOMEM. */
static int64_t group_of(struct groups *g, uint32_t thread)
{
	if (g->count * 2 >= g->table_size) {
		size_t size = g->table_size ? g->table_size * 2 : 256;
		uint32_t *table = calloc(size, sizeof *table);
		if (!table)
			return -ENOMEM;
		free(g->table);
		g->table = table;
		g->table_size = size;
		for (size_t i = 0; i < g->count; i++)
			table[slot_of(g, g->all[i].thread)] = (uint32_t)i + 1;
	}
	size_t slot = slot_of(g, thread);
	if (!g->table[slot]) {
		if (!grow((void **)&g->all, &g->size, g->count, sizeof *g->all))
			return -ENOMEM;
		g->all[g->count++] = (struct group){.thread = thread};
		g->table[slot] = (uint32_t)g->count;
	}
	return (int64_t)g->table[slot] - 1;
}

/* Sorts the spans' indices by thread and table, in the order of arrival. */
static int group_spans(struct groups *g, const struct load *load, int64_t *ret_earliest)
{
	for (size_t i = 0, last = SIZE_MAX; i < load->spans_at[NESTING_TABLES]; i++) {
		struct span *span = &load->spans[i];
		if (span->start < *ret_earliest)
			*ret_earliest = span->start;
		if (span->duration < 0)
			continue;
		if (last == SIZE_MAX || g->all[last].thread != span->thread) {
			int64_t found = group_of(g, span->thread);
			if (found < 0)
				return (int)found;
			last = (size_t)found;
		}
		span->group = (uint32_t)last;
		g->all[last].to[i >= load->spans_at[NESTING_OPERATORS]]++;
	}
	size_t at = 0;
	for (size_t i = 0; i < g->count; i++)
		for (int table = 0; table < NESTING_TABLES; table++) {
			size_t count = g->all[i].to[table];
			g->all[i].from[table] = g->all[i].to[table] = at;
			at += count;
		}
	g->indices = malloc((at ? at : 1) * sizeof *g->indices);
	if (!g->indices)
		return -ENOMEM;
	for (size_t i = 0; i < load->spans_at[NESTING_TABLES]; i++)
		if (load->spans[i].duration >= 0)
			g->indices[g->all[load->spans[i].group].to[i >= load->spans_at[NESTING_OPERATORS]]++] =
				(uint32_t)i;
	return 0;
}

/* Order in which a thread closes what nests: by end, of equal ends the later start first. */
static int compare_spans(const void *left, const void *right, void *user)
{
	const struct span *spans = user, *a = &spans[*(const uint32_t *)left], *b = &spans[*(const uint32_t *)right];
	int64_t a_end = a->start + a->duration, b_end = b->start + b->duration;
	if (a_end != b_end)
		return a_end < b_end ? -1 : 1;
	return a->start != b->start ? (a->start > b->start ? -1 : 1) : 0;
}

static void sort_list(uint32_t *indices, size_t from, size_t to, struct span *spans)
{
	for (size_t i = from + 1; i < to; i++)
		if (compare_spans(&indices[i - 1], &indices[i], spans) > 0) {
			qsort_r(indices + from, to - from, sizeof *indices, compare_spans, spans);
			return;
		}
}

static int sweep_group(struct sweep *s, const struct load *load, const struct groups *g, const struct group *group)
{
	size_t at[NESTING_TABLES];
	for (int table = 0; table < NESTING_TABLES; table++) {
		sort_list(g->indices, group->from[table], group->to[table], load->spans);
		at[table] = group->to[table];
	}
	for (;;) {
		bool left[NESTING_TABLES];
		for (int table = 0; table < NESTING_TABLES; table++)
			left[table] = at[table] > group->from[table];
		if (!left[NESTING_RANGES] && !left[NESTING_OPERATORS])
			return 0;
		int take = left[NESTING_OPERATORS] ? NESTING_OPERATORS : NESTING_RANGES;
		if (left[NESTING_RANGES] && left[NESTING_OPERATORS] &&
		    compare_spans(&g->indices[at[NESTING_RANGES] - 1], &g->indices[at[NESTING_OPERATORS] - 1],
				  load->spans) >= 0)
			take = NESTING_RANGES;
		uint32_t index = g->indices[--at[take]];
		const struct span *span = &load->spans[index];
		int error = sweep_take(s, (enum nesting_table)take,
				       load->rows[take].first + (int64_t)(index - load->spans_at[take]), span->thread,
				       span->start, span->start + span->duration);
		if (error)
			return error;
	}
}

static int sweep_memory(struct sweep *s, struct load *load, unsigned threads)
{
	struct groups groups = {0};
	size_t spans = load->spans_at[NESTING_TABLES];
	load->spans = malloc((spans ? spans : 1) * sizeof *load->spans);
	if (!load->spans)
		return -ENOMEM;
	int error = workers_run(threads, load->jobs_at[NESTING_TABLES], load_job, load);
	if (!error)
		error = group_spans(&groups, load, &s->nesting->earliest);
	for (size_t i = 0; i < groups.count && !error; i++)
		error = sweep_group(s, load, &groups, &groups.all[i]);
	free(groups.all);
	free(groups.table);
	free(groups.indices);
	free(load->spans);
	return error;
}

static int compare_moves(const void *left, const void *right)
{
	const struct nesting_move *a = left, *b = right;
	return a->row < b->row ? -1 : a->row > b->row;
}

static int compare_threads(const void *left, const void *right)
{
	const struct nesting_thread *a = left, *b = right;
	return a->thread < b->thread ? -1 : a->thread > b->thread;
}

int nesting_find(struct nesting *n, struct reader *readers, unsigned threads)
{
	*n = (struct nesting){0};
	struct sweep sweep = {.nesting = n};
	struct load load = {.readers = readers};
	static const char *const tables[NESTING_TABLES] = {"ranges", "operators"};
	int error = 0;
	for (int table = 0; table < NESTING_TABLES && !error; table++) {
		error = nesting_rows(readers, tables[table], &load.rows[table]);
		size_t span = (size_t)(load.rows[table].last - load.rows[table].first + 1);
		load.spans_at[table + 1] = load.spans_at[table] + span;
		load.jobs_at[table + 1] = load.jobs_at[table] + (span + JOB_ROWS - 1) / JOB_ROWS;
	}
	if (!error)
		error = read_steps(&sweep, readers);
	if (!error)
		error = load.spans_at[NESTING_TABLES] <= NESTING_ROWS_IN_MEMORY ? sweep_memory(&sweep, &load, threads)
										: sweep_sorted(&sweep, readers);
	for (unsigned i = 0; i < NESTING_LANES; i++)
		free(sweep.lanes[i].starts);
	free(sweep.steps);
	if (error) {
		nesting_deinit(n);
		return error;
	}
	for (int table = 0; table < NESTING_TABLES; table++)
		if (n->move_count[table])
			qsort(n->moves[table], n->move_count[table], sizeof *n->moves[table], compare_moves);
	if (n->thread_count)
		qsort(n->threads, n->thread_count, sizeof *n->threads, compare_threads);
	return 0;
}

void nesting_deinit(struct nesting *n)
{
	for (int table = 0; table < NESTING_TABLES; table++)
		free(n->moves[table]);
	free(n->threads);
	*n = (struct nesting){0};
}
