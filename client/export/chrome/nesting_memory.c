/* nesting_memory.c - see nesting_memory.h. The rows are read by several threads, each its own part; all else runs in the caller's
 * thread. */
#include "nesting_memory.h"

#include "client/export/scan.h"
#include "client/export/workers.h"
#include "proto/base/array.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows of one job: some milliseconds. */
#define JOB_ROWS 32768

/* 16 bytes an event: two times of 48 bits in halves, and the group. */
struct span {
	uint32_t start_low, length_low, group; /* index into `groups` */
	uint16_t start_high, length_high;
};
/* Group of no row, or of one that needs no track. */
#define NO_GROUP UINT32_MAX

static struct span span_of(int64_t start, int64_t length, uint32_t group)
{
	uint64_t from = (uint64_t)(start + SWEEP_TIME_LIMIT);
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
	return (int64_t)((uint64_t)span->start_high << 32 | span->start_low) - SWEEP_TIME_LIMIT;
}

static int64_t span_end(const struct span *span)
{
	return span_start(span) + (int64_t)((uint64_t)span->length_high << 32 | span->length_low);
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
	const struct nesting_rows *rows; /* of each table */
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
	int64_t start = sweep_clamp(sqlite3_value_int64(row[2]), -SWEEP_TIME_LIMIT);
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
	rows->spans[at - rows->first] =
		span_of(start, sweep_clamp(sqlite3_value_int64(row[3]), 0), (uint32_t)rows->group);
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
		 nesting_sources[table].track, nesting_sources[table].taken, nesting_sources[table].table);
	int error = scan_rows(&load->readers[worker], sql, rows.first, last, load_row, &rows);
	pthread_mutex_lock(&load->lock);
	if (rows.earliest < load->earliest)
		load->earliest = rows.earliest;
	pthread_mutex_unlock(&load->lock);
	return error;
}

/* A list, at its table's place: where it is wanted there is room for all. */
static int load_slices(struct load *load, int table, const struct nesting_list *list)
{
	size_t count = load->spans_at[table + 1] - load->spans_at[table];
	for (size_t i = 0; i < count; i++) {
		const struct nesting_slice *slice = &list->slices[i];
		int64_t group = group_of(&load->groups, slice->track);
		if (group < 0)
			return (int)group;
		int64_t start = sweep_clamp(slice->start, -SWEEP_TIME_LIMIT);
		load->spans[load->spans_at[table] + i] =
			span_of(start, sweep_clamp(slice->end - start, 0), (uint32_t)group);
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
	return ORDER(span_end(a), span_end(b)) ?: ORDER(span_start(b), span_start(a));
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

/* Where each table's rows stand, and which jobs read them. */
static void place_tables(struct load *load)
{
	for (int table = 0; table < NESTING_TABLES; table++) {
		size_t span = (size_t)(load->rows[table].last - load->rows[table].first + 1);
		size_t jobs = nesting_sources[table].table ? (span + JOB_ROWS - 1) / JOB_ROWS : 0;
		load->spans_at[table + 1] = load->spans_at[table] + span;
		load->jobs_at[table + 1] = load->jobs_at[table] + jobs;
	}
}

int nesting_sweep_memory(struct sweep *s, struct reader *readers, unsigned threads,
			 const struct nesting_rows rows[NESTING_TABLES], const struct nesting_options *options)
{
	struct load load = {.readers = readers, .rows = rows};
	struct groups *groups = &load.groups;
	place_tables(&load);
	size_t spans = load.spans_at[NESTING_TABLES];
	load.spans = malloc((spans ? spans : 1) * sizeof *load.spans);
	if (!load.spans)
		return -ENOMEM;
	pthread_mutex_init(&load.lock, NULL);
	int error = workers_run(threads, load.jobs_at[NESTING_TABLES], load_job, &load);
	pthread_mutex_destroy(&load.lock);
	if (load.earliest < s->nesting->earliest)
		s->nesting->earliest = load.earliest;
	for (int table = 0; table < NESTING_TABLES && !error; table++)
		if (nesting_list(options, table))
			error = load_slices(&load, table, nesting_list(options, table));
	if (!error)
		error = group_spans(&load);
	for (size_t i = 0; i < groups->count && !error; i++)
		error = sweep_group(s, &load, &groups->all[i]);
	free(groups->all);
	free(groups->table);
	free(groups->indices);
	free(load.spans);
	return error;
}
