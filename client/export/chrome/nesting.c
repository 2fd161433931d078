/* nesting.c - finds the slices that do not nest. The rows are read by several threads into one array, each its own part;
 * all else runs in the caller's thread.
 *
 * The sweep goes backwards in time: what ends last comes first, so that a range is seen before what it holds. That is the
 * order in which threads write their events, turned round, so that nothing needs sorting as a rule. */
#include "nesting.h"

#include "proto/base/array.h"
#include "proto/events.h"
#include "client/export/buffer.h"
#include "client/export/scan.h"
#include "client/export/workers.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows of one job: some milliseconds. */
#define JOB_ROWS 32768

/* 48 bits of ns are 78 hours on either side of the base; what a broken file has beyond is taken for that. */
#define TIME_LIMIT (INT64_C(1) << 47)

/* 16 bytes an event: two times of 48 bits in halves, and the group. */
struct span {
	uint32_t start_low, length_low, group; /* index into `groups` */
	uint16_t start_high, length_high;
};
/* Group of no row, or of one that needs no track. */
#define NO_GROUP UINT32_MAX

static struct span span_of(int64_t start, int64_t length, uint32_t group)
{
	uint64_t from = (uint64_t)(start + TIME_LIMIT);
	return (struct span){
		.start_low = (uint32_t)from,
		.start_high = (uint16_t)(from >> 32),
		.length_low = (uint32_t)length,
		.length_high = (uint16_t)(length >> 32),
		.group = group,
	};
}

static int64_t span_start(const struct span *span)
{
	return (int64_t)((uint64_t)span->start_high << 32 | span->start_low) - TIME_LIMIT;
}

static int64_t span_end(const struct span *span)
{
	return span_start(span) + (int64_t)((uint64_t)span->length_high << 32 | span->length_low);
}

/* Where a table's slices come from: number of the track, and which rows are slices. */
#define DEVICE_TRACK(device, stream) "((((" device " & 1073741823) + 1) << 32) | (" stream " & 4294967295))"
#define HAS_TIME "start IS NOT NULL"
static const struct {
	const char *table, *track, *taken;
} sources[NESTING_TABLES] = {
	[NESTING_RANGES] = {"ranges", "thread & 4294967295", "source <> 2"},
	[NESTING_OPERATORS] = {"operators", "thread & 4294967295", "1"},
	[NESTING_API_CALLS] = {"api_calls", "thread & 4294967295", "1"},
	[NESTING_OVERHEADS] = {"overheads", "2305843009213693952", "1"},
	[NESTING_KERNELS] = {"kernel_records", DEVICE_TRACK("device", "stream"), HAS_TIME},
	[NESTING_COPIES] = {"copy_records", DEVICE_TRACK("device", "stream"), HAS_TIME},
	[NESTING_SETS] = {"set_records", DEVICE_TRACK("device", "stream"), HAS_TIME},
	[NESTING_GRAPHS] = {"graph_records", DEVICE_TRACK("device", "stream"), HAS_TIME},
	[NESTING_SYNCS] = {"syncs", DEVICE_TRACK("profd_device(context)", "stream") " | 4611686018427387904", HAS_TIME},
};
_Static_assert(RANGE_SOURCE_NVTX_START_END == 2, "the queries leave out start/end ranges");
_Static_assert(NESTING_OWN == UINT64_C(2305843009213693952), "as in the query");
_Static_assert(NESTING_WAITS == UINT64_C(4611686018427387904), "as in the query");

static int64_t clamp(int64_t value, int64_t low)
{
	return value < low ? low : value >= TIME_LIMIT ? TIME_LIMIT - 1 : value;
}

struct step {
	uint64_t thread;
	int64_t start, end;
};

/* A slice that is open; only where it starts matters when going backwards. */
struct opened {
	int64_t start;
	uint32_t within; /* row of the innermost operator that it is, or lies in; 0 = none */
};

/* The innermost last. */
struct lane {
	struct opened *all;
	size_t used, size;
};

struct sweep {
	struct nesting *nesting;
	struct step *steps; /* by thread, then time; they do not overlap */
	size_t step_count;
	size_t move_size[NESTING_TABLES], track_size;
	/* The track in hand */
	uint64_t track;
	bool begun;
	size_t steps_from, steps_at; /* steps [from, at) of the track start before the slice in hand ends */
	struct lane lanes[NESTING_LANES];
};

static int sweep_track(struct sweep *s, uint64_t track)
{
	struct nesting *n = s->nesting;
	if (!ARRAY_GROW(n->tracks, n->track_count, s->track_size))
		return -ENOMEM;
	n->tracks[n->track_count++] = (struct nesting_track){.track = track, .lanes = 1};
	s->track = track;
	s->begun = true;
	for (unsigned i = 0; i < NESTING_LANES; i++)
		s->lanes[i].used = 0;
	size_t from = 0;
	while (from < s->step_count && s->steps[from].thread < track)
		from++;
	s->steps_from = s->steps_at = from;
	while (s->steps_at < s->step_count && s->steps[s->steps_at].thread == track)
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
	while (lane->used && lane->all[lane->used - 1].start >= end)
		lane->used--;
	return lane->used == 0 || lane->all[lane->used - 1].start <= start;
}

/* Row of the innermost operator around the next slice, on whatever lane it is; 0 = none. */
static uint32_t operator_around(struct sweep *s, int64_t start, int64_t end)
{
	const struct nesting_track *own = &s->nesting->tracks[s->nesting->track_count - 1];
	const struct opened *found = NULL;
	for (unsigned i = 0; i < own->lanes; i++) {
		const struct lane *lane = &s->lanes[i];
		if (!fits(&s->lanes[i], start, end) || !lane->used)
			continue;
		const struct opened *last = &lane->all[lane->used - 1];
		if (last->within && (!found || last->start > found->start))
			found = last;
	}
	return found ? found->within : 0;
}

/* Takes the next slice: track by track, the latest end first, of equal ends the earliest start first. */
static int sweep_take(struct sweep *s, enum nesting_table table, int64_t row, uint64_t track, int64_t start,
		      int64_t end)
{
	if (!s->begun || s->track != track) {
		int error = sweep_track(s, track);
		if (error)
			return error;
	}
	struct nesting *n = s->nesting;
	unsigned lane = crosses_step(s, start, end) ? 1 : 0;
	while (lane < NESTING_LANES && !fits(&s->lanes[lane], start, end))
		lane++;
	if (table == NESTING_API_CALLS && n->call_operators && (uint64_t)row - (uint64_t)n->call_first < n->call_count)
		n->call_operators[row - n->call_first] = operator_around(s, start, end);
	if (lane < NESTING_LANES) {
		struct lane *on = &s->lanes[lane];
		uint32_t within = on->used ? on->all[on->used - 1].within : 0;
		if (end > start) {
			if (!ARRAY_GROW(on->all, on->used, on->size))
				return -ENOMEM;
			on->all[on->used++] = (struct opened){
				.start = start,
				.within = table == NESTING_OPERATORS ? (uint32_t)row : within,
			};
		}
	}
	if (lane == 0)
		return 0;
	if (!ARRAY_GROW(n->moves[table], n->move_count[table], s->move_size[table]))
		return -ENOMEM;
	n->moves[table][n->move_count[table]++] = (struct nesting_move){
		.row = row,
		.lane = lane < NESTING_LANES ? (uint8_t)lane : NESTING_ASYNC,
	};
	struct nesting_track *own = &n->tracks[n->track_count - 1];
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
		if (!ARRAY_GROW(s->steps, s->step_count, size))
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
	/* With a condition the rows are counted one by one: SQLite's own way to count is without bounds in a broken
	 * file. */
	snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE rowid > -1", table);
	ret_rows->count = reader_count(r, sql, -1);
	if (ret_rows->count <= 0)
		return ret_rows->count < 0 ? -EIO : 0;
	snprintf(sql, sizeof sql, "SELECT min(rowid) FROM %s", table);
	ret_rows->first = reader_count(r, sql, 0);
	snprintf(sql, sizeof sql, "SELECT max(rowid) FROM %s", table);
	ret_rows->last = reader_count(r, sql, -1);
	/* Rows arrive with rising numbers and none is deleted. */
	if (ret_rows->first < 0 || ret_rows->last < ret_rows->first || ret_rows->last > INT64_MAX / 2)
		return -EIO;
	if (ret_rows->last - ret_rows->first >= INT32_MAX)
		return -EFBIG;
	return 0;
}

/* A list of slices, sorted as the sweep goes. */
struct list {
	const struct nesting_slice *slices;
	uint32_t *order;
	size_t count;
};

/* By track, then what ends later, then what starts earlier. */
static int compare_slices(const void *left, const void *right, void *user)
{
	const struct nesting_slice *slices = user, *a = &slices[*(const uint32_t *)left],
				   *b = &slices[*(const uint32_t *)right];
	if (a->track != b->track)
		return a->track < b->track ? -1 : 1;
	if (a->end != b->end)
		return a->end > b->end ? -1 : 1;
	return a->start != b->start ? (a->start < b->start ? -1 : 1) : 0;
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
						      : table > NESTING_PROJECTIONS;
		if (!before)
			return 0;
		int error =
			sweep_take(s, NESTING_PROJECTIONS, list->order[*at], slice->track, slice->start, slice->end);
		if (error)
			return error;
	}
	return 0;
}

/* What the host did, and what devices did: no track has both, so that each is looked at alone, in half the memory. */
static const struct side {
	enum nesting_table from, to;
} sides[] = {{NESTING_RANGES, NESTING_PROJECTIONS}, {NESTING_PROJECTIONS, NESTING_TABLES}};

static bool has_table(int table, int64_t schema)
{
	return sources[table].table && (schema >= 2 || table < NESTING_TABLES_OF_1);
}

/* Many events: SQLite sorts them, in a temporary file where it must. */
static int sweep_sorted(struct sweep *s, const struct reader *r, const struct side *side, int64_t schema,
			struct list *list)
{
	struct buffer sql = {0};
	char part[512];
	/* Start/end ranges need no track, but a place in time. */
	int64_t first_range = reader_count(r, "SELECT min(start) FROM ranges", 0);
	if (first_range < s->nesting->earliest)
		s->nesting->earliest = first_range;
	for (int table = (int)side->from; table < (int)side->to; table++) {
		if (!has_table(table, schema))
			continue;
		int n = snprintf(part, sizeof part,
				 "%sSELECT %d AS kind, rowid, %s AS track, start, max(duration, 0), start + "
				 "max(duration, 0) AS finish FROM %s WHERE %s",
				 sql.used ? " UNION ALL " : "", table, sources[table].track, sources[table].table,
				 sources[table].taken);
		buffer_put(&sql, part, (size_t)n);
	}
	BUFFER_PUT(&sql, " ORDER BY track, finish DESC, start, kind");
	sqlite3_stmt *statement = NULL;
	int error = sql.failed ? -ENOMEM : sort_slices(list), row = SQLITE_ERROR;
	if (!error && sqlite3_prepare_v2(r->db, sql.bytes, (int)sql.used, &statement, NULL) != SQLITE_OK)
		error = -EIO;
	size_t at = 0;
	while (!error && (row = sqlite3_step(statement)) == SQLITE_ROW) {
		enum nesting_table table = (enum nesting_table)sqlite3_column_int(statement, 0);
		uint64_t track = (uint64_t)sqlite3_column_int64(statement, 2);
		int64_t start = clamp(sqlite3_column_int64(statement, 3), -TIME_LIMIT),
			end = start + clamp(sqlite3_column_int64(statement, 4), 0);
		if (start < s->nesting->earliest)
			s->nesting->earliest = start;
		error = sweep_list(s, list, &at, table, track, start, end);
		if (!error)
			error = sweep_take(s, table, sqlite3_column_int64(statement, 1), track, start, end);
	}
	sqlite3_finalize(statement);
	buffer_deinit(&sql);
	if (!error && row != SQLITE_DONE)
		error = -EIO;
	/* Nothing comes behind: what is left is before it. */
	return error ? error : sweep_list(s, list, &at, NESTING_TABLES, UINT64_MAX, 0, 0);
}

/* The spans of one track, as indices in the order of arrival: one list a table. */
struct group {
	uint64_t track;
	size_t from[NESTING_TABLES], to[NESTING_TABLES];
};

struct groups {
	struct group *all;
	size_t count, size;
	uint32_t *table; /* open addressing by track: index + 1, 0 = free */
	size_t table_size;
	uint32_t *indices;
};

static size_t slot_of(const struct groups *g, uint64_t track)
{
	size_t at = (size_t)(track * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (g->table_size - 1);
	while (g->table[at] && g->all[g->table[at] - 1].track != track)
		at = (at + 1) & (g->table_size - 1);
	return at;
}

/* Index of a track's group, made where it is new; -ENOMEM. */
static int64_t group_of(struct groups *g, uint64_t track)
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
			table[slot_of(g, g->all[i].track)] = (uint32_t)i + 1;
	}
	size_t slot = slot_of(g, track);
	if (!g->table[slot]) {
		if (!ARRAY_GROW(g->all, g->count, g->size))
			return -ENOMEM;
		g->all[g->count++] = (struct group){.track = track};
		g->table[slot] = (uint32_t)g->count;
	}
	return (int64_t)g->table[slot] - 1;
}

/* The rows of all tables in memory: one table's behind the other's, each at its rowid's place. */
struct load {
	struct reader *readers;
	struct nesting_rows rows[NESTING_TABLES];
	size_t spans_at[NESTING_TABLES + 1], jobs_at[NESTING_TABLES + 1];
	struct span *spans;
	pthread_mutex_t lock; /* of groups and earliest, while jobs run */
	struct groups groups;
	int64_t earliest;
};

/* A job: the span of row `first` is spans[0]. */
struct load_rows {
	struct load *load;
	struct span *spans;
	int64_t first, last, earliest;
	uint64_t track; /* of the last row, and its group */
	int64_t group;
};

static int find_group(struct load_rows *rows, uint64_t track)
{
	if (rows->group < 0 || rows->track != track) {
		pthread_mutex_lock(&rows->load->lock);
		rows->group = group_of(&rows->load->groups, track);
		pthread_mutex_unlock(&rows->load->lock);
		rows->track = track;
	}
	return rows->group < 0 ? (int)rows->group : 0;
}

static int load_row(void *user, sqlite3_value **row)
{
	struct load_rows *rows = user;
	int64_t start = clamp(sqlite3_value_int64(row[2]), -TIME_LIMIT);
	if (start < rows->earliest)
		rows->earliest = start;
	if (!sqlite3_value_int(row[4]))
		return 0;
	int error = find_group(rows, (uint64_t)sqlite3_value_int64(row[1]));
	if (error)
		return error;
	int64_t at = sqlite3_value_int64(row[0]);
	/* In a broken file rows may come out of their order. */
	if (at < rows->first || at > rows->last)
		return -EIO;
	rows->spans[at - rows->first] = span_of(start, clamp(sqlite3_value_int64(row[3]), 0), (uint32_t)rows->group);
	return 0;
}

static int load_job(void *user, unsigned worker, uint64_t job)
{
	struct load *load = user;
	char sql[320];
	int table = 0;
	while (job >= load->jobs_at[table + 1])
		table++;
	int64_t begin = (int64_t)(job - load->jobs_at[table]) * JOB_ROWS;
	struct load_rows rows = {
		.load = load,
		.spans = load->spans + load->spans_at[table] + begin,
		.first = load->rows[table].first + begin,
		.group = -1,
	};
	int64_t last =
		rows.first + JOB_ROWS - 1 < load->rows[table].last ? rows.first + JOB_ROWS - 1 : load->rows[table].last;
	rows.last = last;
	for (int64_t i = 0; i <= last - rows.first; i++)
		rows.spans[i] = (struct span){.group = NO_GROUP};
	snprintf(sql, sizeof sql,
		 "SELECT profd_row(rowid, %s, start, duration, %s) FROM %s WHERE rowid BETWEEN ? AND ?",
		 sources[table].track, sources[table].taken, sources[table].table);
	int error = scan_rows(&load->readers[worker], sql, rows.first, last, load_row, &rows);
	pthread_mutex_lock(&load->lock);
	if (rows.earliest < load->earliest)
		load->earliest = rows.earliest;
	pthread_mutex_unlock(&load->lock);
	return error;
}

/* The list's spans, behind its table's place. */
static int load_list(struct load *load, const struct list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct nesting_slice *slice = &list->slices[i];
		int64_t group = group_of(&load->groups, slice->track);
		if (group < 0)
			return (int)group;
		int64_t start = clamp(slice->start, -TIME_LIMIT);
		load->spans[load->spans_at[NESTING_PROJECTIONS] + i] =
			span_of(start, clamp(slice->end - start, 0), (uint32_t)group);
	}
	return 0;
}

/* Sorts the spans' indices by group and table, in the order of arrival. */
static int group_spans(struct load *load)
{
	struct groups *g = &load->groups;
	for (int table = 0; table < NESTING_TABLES; table++)
		for (size_t i = load->spans_at[table]; i < load->spans_at[table + 1]; i++)
			if (load->spans[i].group != NO_GROUP)
				g->all[load->spans[i].group].to[table]++;
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
	for (int table = 0; table < NESTING_TABLES; table++)
		for (size_t i = load->spans_at[table]; i < load->spans_at[table + 1]; i++)
			if (load->spans[i].group != NO_GROUP)
				g->indices[g->all[load->spans[i].group].to[table]++] = (uint32_t)i;
	return 0;
}

/* Order in which a thread closes what nests: by end, of equal ends the later start first. */
static int compare_spans(const void *left, const void *right, void *user)
{
	const struct span *spans = user, *a = &spans[*(const uint32_t *)left], *b = &spans[*(const uint32_t *)right];
	int64_t a_end = span_end(a), b_end = span_end(b), a_start = span_start(a), b_start = span_start(b);
	if (a_end != b_end)
		return a_end < b_end ? -1 : 1;
	return a_start != b_start ? (a_start > b_start ? -1 : 1) : 0;
}

static void sort_list(uint32_t *indices, size_t from, size_t to, struct span *spans)
{
	for (size_t i = from + 1; i < to; i++)
		if (compare_spans(&indices[i - 1], &indices[i], spans) > 0) {
			qsort_r(indices + from, to - from, sizeof *indices, compare_spans, spans);
			return;
		}
}

static int sweep_group(struct sweep *s, const struct load *load, const struct group *group)
{
	uint32_t *indices = load->groups.indices;
	size_t at[NESTING_TABLES];
	int tables[NESTING_TABLES], count = 0; /* that have something left, in their order */
	for (int table = 0; table < NESTING_TABLES; table++) {
		at[table] = group->to[table];
		if (at[table] == group->from[table])
			continue;
		sort_list(indices, group->from[table], group->to[table], load->spans);
		tables[count++] = table;
	}
	while (count) {
		int best = 0;
		for (int i = 1; i < count; i++)
			if (compare_spans(&indices[at[tables[best]] - 1], &indices[at[tables[i]] - 1], load->spans) < 0)
				best = i;
		int table = tables[best];
		uint32_t index = indices[--at[table]];
		const struct span *span = &load->spans[index];
		if (at[table] == group->from[table]) {
			count--;
			memmove(&tables[best], &tables[best + 1], (size_t)(count - best) * sizeof *tables);
		}
		int error = sweep_take(s, (enum nesting_table)table,
				       load->rows[table].first + (int64_t)(index - load->spans_at[table]), group->track,
				       span_start(span), span_end(span));
		if (error)
			return error;
	}
	return 0;
}

static int sweep_memory(struct sweep *s, struct load *load, unsigned threads, const struct list *list)
{
	struct groups *groups = &load->groups;
	size_t spans = load->spans_at[NESTING_TABLES];
	load->spans = malloc((spans ? spans : 1) * sizeof *load->spans);
	if (!load->spans)
		return -ENOMEM;
	pthread_mutex_init(&load->lock, NULL);
	int error = workers_run(threads, load->jobs_at[NESTING_TABLES], load_job, load);
	pthread_mutex_destroy(&load->lock);
	if (load->earliest < s->nesting->earliest)
		s->nesting->earliest = load->earliest;
	if (!error)
		error = load_list(load, list);
	if (!error)
		error = group_spans(load);
	for (size_t i = 0; i < groups->count && !error; i++)
		error = sweep_group(s, load, &groups->all[i]);
	free(groups->all);
	free(groups->table);
	free(groups->indices);
	free(load->spans);
	return error;
}

static int compare_moves(const void *left, const void *right)
{
	const struct nesting_move *a = left, *b = right;
	return a->row < b->row ? -1 : a->row > b->row;
}

static int compare_tracks(const void *left, const void *right)
{
	const struct nesting_track *a = left, *b = right;
	return a->track < b->track ? -1 : a->track > b->track;
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
	struct load load = {.readers = readers};
	struct list list = {.slices = options->slices};
	size_t most = options->rows_in_memory ? options->rows_in_memory : NESTING_ROWS_IN_MEMORY;
	int error = 0;
	for (int table = 0; table < NESTING_TABLES && !error; table++) {
		bool mine = table >= (int)side->from && table < (int)side->to;
		load.rows[table] = (struct nesting_rows){.first = 0, .last = -1};
		if (mine && table == NESTING_PROJECTIONS) {
			list.count = options->slice_count;
			load.rows[table].last = (int64_t)list.count - 1;
		} else if (mine && has_table(table, options->schema)) {
			error = nesting_rows(readers, sources[table].table, &load.rows[table]);
		}
		size_t span = (size_t)(load.rows[table].last - load.rows[table].first + 1);
		size_t jobs = sources[table].table ? (span + JOB_ROWS - 1) / JOB_ROWS : 0;
		load.spans_at[table + 1] = load.spans_at[table] + span;
		load.jobs_at[table + 1] = load.jobs_at[table] + jobs;
	}
	if (!error && side->from == NESTING_RANGES)
		error = keep_calls(sweep->nesting, &load.rows[NESTING_API_CALLS]);
	if (!error)
		error = load.spans_at[NESTING_TABLES] <= most
				? sweep_memory(sweep, &load, threads, &list)
				: sweep_sorted(sweep, readers, side, options->schema, &list);
	free(list.order);
	return error;
}

/* A thread that stepped, and did nothing else that was recorded, has a track, too. */
static int add_step_tracks(struct sweep *s)
{
	int error = 0;
	size_t swept = s->nesting->track_count;
	for (size_t i = 0; i < s->step_count && !error; i++) {
		bool there = i > 0 && s->steps[i - 1].thread == s->steps[i].thread;
		for (size_t k = 0; k < swept && !there; k++)
			there = s->nesting->tracks[k].track == s->steps[i].thread;
		if (!there)
			error = sweep_track(s, s->steps[i].thread);
	}
	return error;
}

int nesting_find(struct nesting *n, struct reader *readers, unsigned threads, const struct nesting_options *options)
{
	*n = (struct nesting){0};
	struct sweep sweep = {.nesting = n};
	int error = options->slice_count < UINT32_MAX ? read_steps(&sweep, readers) : -EFBIG;
	for (size_t i = 0; i < sizeof sides / sizeof *sides && !error; i++)
		error = find_side(&sweep, &sides[i], readers, threads, options);
	if (!error)
		error = add_step_tracks(&sweep);
	for (unsigned i = 0; i < NESTING_LANES; i++)
		free(sweep.lanes[i].all);
	free(sweep.steps);
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
