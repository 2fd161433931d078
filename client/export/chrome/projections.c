/* projections.c - see projections.h. Ranges that launched something are held in memory, in the order of their starts;
 * one scan over the operations finds the ranges that were open when each was launched. Runs in the caller's thread. */
#include "projections.h"

#include "proto/base/array.h"
#include "client/ui/figure.h"
#include "client/export/scan.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>

#define NONE UINT32_MAX

/* Only a few ranges are open at a time, and each has a few streams; but a foreign file may have as many as it has rows.
 * So the steps for each operation, on average, and the extents that are held have bounds; what is beyond is counted. */
#define STEPS_FIRST (1u << 24)
#define STEPS_OPERATION 256u
#define EXTENTS_MAX (1u << 21)

/* What a range did on one stream. */
struct extent {
	uint64_t track;
	int64_t first, last; /* first > last: nothing */
	uint32_t next;	     /* further one of the range, in `further` */
};

struct opened {
	int64_t start, end, id, parent, name;
	uint32_t thread;
	uint32_t around; /* that was open when it began, if only just; NONE */
	struct extent extent;
};

struct finder {
	struct opened *ranges; /* by thread, start; of equal starts the longest first */
	size_t count;
	struct extent *further;
	size_t further_count, further_size;
	uint64_t steps; /* that may still be taken */
	uint64_t left_out;
};

static int compare_opened(const void *left, const void *right)
{
	const struct opened *a = left, *b = right;
	return ORDER(a->thread, b->thread) ?: ORDER(a->start, b->start) ?: ORDER(b->end, a->end);
}

static int load_ranges(struct finder *f, const struct reader *r, uint64_t *ret_left_out)
{
	static const char from[] = "FROM ranges g JOIN range_devices d ON d.id = g.id WHERE g.source <> 2";
	char sql[256];
	sqlite3_snprintf(sizeof sql, sql, "SELECT count(*) %s", from);
	int64_t all = reader_count(r, sql, 0);
	size_t size = (size_t)(all < PROJECTION_RANGES_MAX ? all : PROJECTION_RANGES_MAX);
	*ret_left_out = (uint64_t)all - size;
	if (!size)
		return 0;
	f->ranges = malloc(size * sizeof *f->ranges);
	if (!f->ranges)
		return -ENOMEM;
	sqlite3_stmt *row;
	int result = SQLITE_DONE;
	sqlite3_snprintf(sizeof sql, sql, "SELECT g.thread, g.start, g.duration, g.id, g.name, g.parent %s", from);
	if (sqlite3_prepare_v2(r->db, sql, -1, &row, NULL) != SQLITE_OK)
		return -EIO;
	while (f->count < size && (result = sqlite3_step(row)) == SQLITE_ROW) {
		int64_t start = figure_time(sqlite3_column_int64(row, 1));
		f->ranges[f->count++] = (struct opened){
			.thread = (uint32_t)sqlite3_column_int64(row, 0),
			.start = start,
			.end = start + figure_length(sqlite3_column_int64(row, 2)),
			.id = sqlite3_column_int64(row, 3),
			.name = sqlite3_column_int64(row, 4),
			.parent = sqlite3_column_int64(row, 5),
			.around = NONE,
			.extent = {.first = 1, .next = NONE},
		};
	}
	sqlite3_finalize(row);
	if (result != SQLITE_DONE && result != SQLITE_ROW)
		return -EIO;
	if (f->count)
		qsort(f->ranges, f->count, sizeof *f->ranges, compare_opened);
	/* A range that has ended stays in the chain while one that began in it is open: their ends may cross. */
	uint32_t open = NONE;
	for (uint32_t i = 0; i < f->count; i++) {
		struct opened *range = &f->ranges[i];
		while (open != NONE && (f->ranges[open].thread != range->thread || f->ranges[open].end <= range->start))
			open = f->ranges[open].around;
		range->around = open;
		open = i;
	}
	return 0;
}

static int extend(struct finder *f, struct extent *extent, uint64_t track, int64_t first, int64_t last)
{
	for (;;) {
		if (extent->first > extent->last) {
			*extent = (struct extent){.track = track, .first = first, .last = last, .next = extent->next};
			return 0;
		}
		if (extent->track == track) {
			if (first < extent->first)
				extent->first = first;
			if (last > extent->last)
				extent->last = last;
			return 0;
		}
		if (extent->next == NONE)
			break;
		if (!f->steps)
			return 0;
		f->steps--;
		extent = &f->further[extent->next];
	}
	if (f->further_count == EXTENTS_MAX) {
		f->left_out++;
		return 0;
	}
	extent->next = (uint32_t)f->further_count;
	if (!ARRAY_GROW(f->further, f->further_count, f->further_size)) {
		extent->next = NONE;
		return -ENOMEM;
	}
	f->further[f->further_count++] = (struct extent){.track = track, .first = first, .last = last, .next = NONE};
	return 0;
}

/* An operation: thread and start of its launch, device, stream, start, duration. */
static int take_operation(void *user, sqlite3_value **row)
{
	struct finder *f = user;
	uint32_t thread = (uint32_t)sqlite3_value_int64(row[0]);
	int64_t launched = figure_time(sqlite3_value_int64(row[1]));
	/* The first range that begins after the launch. */
	size_t low = ARRAY_BEFORE(f->count, middle,
				  f->ranges[middle].thread < thread ||
					  (f->ranges[middle].thread == thread && f->ranges[middle].start <= launched));
	if (!low || f->ranges[low - 1].thread != thread)
		return 0;
	uint64_t track =
		nesting_device_track((uint32_t)sqlite3_value_int64(row[2]), (uint32_t)sqlite3_value_int64(row[3]));
	int64_t first = figure_time(sqlite3_value_int64(row[4])),
		last = first + figure_length(sqlite3_value_int64(row[5]));
	f->steps += STEPS_OPERATION;
	for (uint32_t i = (uint32_t)low - 1; i != NONE; i = f->ranges[i].around) {
		if (!f->steps) {
			f->left_out++;
			return 0;
		}
		f->steps--;
		if (launched >= f->ranges[i].end)
			continue;
		int error = extend(f, &f->ranges[i].extent, track, first, last);
		if (error)
			return error;
	}
	return 0;
}

static int put(struct projections *p, uint64_t track, int64_t first, int64_t last, int64_t id, int64_t name)
{
	if (p->count == p->size) {
		size_t size = p->size ? p->size * 2 : 256;
		struct projection *all = realloc(p->all, size * sizeof *all);
		if (all)
			p->all = all;
		struct nesting_slice *slices = all ? realloc(p->slices, size * sizeof *slices) : NULL;
		if (!slices)
			return -ENOMEM;
		p->slices = slices;
		p->size = size;
	}
	p->slices[p->count] = (struct nesting_slice){.track = track, .start = first, .end = last};
	p->all[p->count++] = (struct projection){.id = id, .name = name};
	return 0;
}

static int find_steps(struct projections *p, const struct reader *r)
{
	sqlite3_stmt *row;
	int error = 0, result = SQLITE_ERROR;
	if (sqlite3_prepare_v2(
		    r->db,
		    "SELECT d.device, d.stream, d.first, d.last, s.number FROM step_devices d JOIN steps s ON "
		    "s.step = d.step WHERE d.stream <> -1 AND d.first IS NOT NULL AND s.source IS NOT 5",
		    -1, &row, NULL) != SQLITE_OK)
		return -EIO;
	while (!error && (result = sqlite3_step(row)) == SQLITE_ROW) {
		int64_t first = figure_time(sqlite3_column_int64(row, 2)),
			last = figure_time(sqlite3_column_int64(row, 3));
		if (last >= first)
			error = put(p,
				    nesting_device_track((uint32_t)sqlite3_column_int64(row, 0),
							 (uint32_t)sqlite3_column_int64(row, 1)),
				    first, last, 0, sqlite3_column_int64(row, 4));
	}
	sqlite3_finalize(row);
	return error ? error : result == SQLITE_DONE ? 0 : -EIO;
}

static int compare_ranges(const void *left, const void *right)
{
	const struct projection_range *a = left, *b = right;
	return ORDER(a->id, b->id);
}

static int keep_ranges(struct projections *p, const struct finder *f)
{
	if (!f->count)
		return 0;
	p->ranges = malloc(f->count * sizeof *p->ranges);
	if (!p->ranges)
		return -ENOMEM;
	p->range_count = f->count;
	for (size_t i = 0; i < f->count; i++)
		p->ranges[i] = (struct projection_range){
			.id = f->ranges[i].id,
			.parent = f->ranges[i].parent,
			.name = f->ranges[i].name,
		};
	qsort(p->ranges, p->range_count, sizeof *p->ranges, compare_ranges);
	return 0;
}

static int find_ranges(struct projections *p, struct finder *f, const struct reader *r)
{
	static const char *const tables[] = {"kernel_records", "copy_records", "set_records", "graph_records"};
	char sql[320];
	int error = 0;
	for (size_t i = 0; i < sizeof tables / sizeof *tables && f->count && !error; i++) {
		sqlite3_snprintf(
			sizeof sql, sql,
			"SELECT profd_row(l.thread, l.start, r.device, r.stream, r.start, r.duration) FROM %s r "
			"JOIN launches l ON l.correlation = r.correlation WHERE r.rowid BETWEEN ? AND ? AND "
			"r.start IS NOT NULL AND l.thread IS NOT NULL AND l.start IS NOT NULL",
			tables[i]);
		error = scan_rows(r, sql, 0, INT64_MAX, take_operation, f);
	}
	for (size_t i = 0; i < f->count && !error; i++) {
		const struct opened *range = &f->ranges[i];
		const struct extent *extent = &range->extent;
		while (!error && extent->first <= extent->last) {
			error = put(p, extent->track, extent->first, extent->last, range->id, range->name);
			if (extent->next == NONE)
				break;
			extent = &f->further[extent->next];
		}
	}
	return error;
}

int projections_find(struct projections *p, const struct reader *r, int64_t schema, bool draw)
{
	*p = (struct projections){0};
	if (schema < 2)
		return 0;
	struct finder f = {.steps = STEPS_FIRST};
	int error = load_ranges(&f, r, &p->left_out);
	if (!error)
		error = keep_ranges(p, &f);
	if (!error && draw)
		error = find_steps(p, r);
	if (!error && draw)
		error = find_ranges(p, &f, r);
	p->left_out += f.left_out;
	free(f.ranges);
	free(f.further);
	if (error)
		projections_deinit(p);
	return error;
}

const struct projection_range *projections_range(const struct projections *p, int64_t id)
{
	const struct projection_range key = {.id = id};
	return p->range_count ? bsearch(&key, p->ranges, p->range_count, sizeof key, compare_ranges) : NULL;
}

void projections_deinit(struct projections *p)
{
	free(p->ranges);
	free(p->all);
	free(p->slices);
	*p = (struct projections){0};
}
