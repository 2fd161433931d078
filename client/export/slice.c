/* slice.c - see slice.h. */
#include "slice.h"

#include "proto/base/array.h"
#include "client/ui/figure.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

/* More intervals than this are more than a person asks for: a name that every operator has. */
#define SPANS_MAX 1000000

static int no_memory(char *why, size_t why_bytes)
{
	snprintf(why, why_bytes, "out of memory");
	return -ENOMEM;
}

static int compare_spans(const void *left, const void *right)
{
	const struct slice_span *a = left, *b = right;
	return a->start != b->start ? (a->start < b->start ? -1 : 1) : a->end < b->end ? -1 : a->end > b->end;
}

/* Sorted, and what touches or overlaps is one. */
static size_t join_spans(struct slice_span *spans, size_t count)
{
	size_t kept = 0;
	if (count)
		qsort(spans, count, sizeof *spans, compare_spans);
	for (size_t i = 0; i < count; i++) {
		if (kept && spans[i].start <= spans[kept - 1].end)
			spans[kept - 1].end = spans[i].end > spans[kept - 1].end ? spans[i].end : spans[kept - 1].end;
		else
			spans[kept++] = spans[i];
	}
	return kept;
}

/* What lies in both: the slice's own, and these. */
static bool both(struct slice *slice, const struct slice_span *other, size_t other_count)
{
	struct slice_span *found = calloc(slice->count + other_count + 1, sizeof *found);
	size_t count = 0, i = 0, j = 0;
	if (!found)
		return false;
	while (i < slice->count && j < other_count) {
		const struct slice_span *a = &slice->spans[i], *b = &other[j];
		int64_t start = a->start > b->start ? a->start : b->start, end = a->end < b->end ? a->end : b->end;
		if (start < end)
			found[count++] = (struct slice_span){start, end};
		if (a->end < b->end)
			i++;
		else
			j++;
	}
	free(slice->spans);
	slice->spans = found;
	slice->count = count;
	return true;
}

/* Takes the spans over. */
static int narrow(struct slice *slice, struct slice_span *spans, size_t count, char *why, size_t why_bytes)
{
	count = join_spans(spans, count);
	if (!slice->timed) {
		slice->spans = spans;
		slice->count = count;
		slice->timed = true;
		return 0;
	}
	bool ok = both(slice, spans, count);
	free(spans);
	return ok ? 0 : no_memory(why, why_bytes);
}

/* Adds the intervals (start, duration) that a statement answers with; it is finalized. */
static int read_spans(const struct reader *r, sqlite3_stmt *row, struct slice_span **ret, size_t *ret_count, char *why,
		      size_t why_bytes)
{
	size_t room = *ret_count;
	int result = SQLITE_DONE;
	while (*ret_count < SPANS_MAX && (result = sqlite3_step(row)) == SQLITE_ROW) {
		if (!ARRAY_GROW(*ret, *ret_count, room)) {
			sqlite3_finalize(row);
			return no_memory(why, why_bytes);
		}
		int64_t start = figure_time(sqlite3_column_int64(row, 0));
		(*ret)[(*ret_count)++] =
			(struct slice_span){start, start + figure_length(sqlite3_column_int64(row, 1))};
	}
	sqlite3_finalize(row);
	if (result == SQLITE_DONE || result == SQLITE_ROW)
		return 0;
	reader_why(r, why, why_bytes);
	return -EIO;
}

static sqlite3_stmt *prepare(const struct reader *r, const char *sql, char *why, size_t why_bytes)
{
	sqlite3_stmt *row;
	if (sqlite3_prepare_v2(r->db, sql, -1, &row, NULL) == SQLITE_OK)
		return row;
	reader_why(r, why, why_bytes);
	return NULL;
}

/* A step by its place in the capture, or by the process's own count. */
static int64_t find_step(const struct reader *r, int64_t wanted)
{
	char sql[160];
	snprintf(sql, sizeof sql,
		 "SELECT step FROM steps WHERE step = %" PRId64 " OR number = %" PRId64 " ORDER BY step = %" PRId64
		 " DESC LIMIT 1",
		 wanted, wanted, wanted);
	return reader_count(r, sql, 0);
}

static int take_steps(struct slice *slice, const struct reader *r, const struct export_options *options, char *why,
		      size_t why_bytes)
{
	struct slice_span *spans = NULL;
	size_t count = 0;
	int64_t first = find_step(r, options->first_step), last = find_step(r, options->last_step);
	if (!first || !last) {
		snprintf(why, why_bytes,
			 "the capture has no step %" PRId64 "; it has %" PRId64 ", the first of which is 1",
			 first ? options->last_step : options->first_step,
			 reader_count(r, "SELECT count(*) FROM steps WHERE rowid > -1", 0));
		return -ENOENT;
	}
	sqlite3_stmt *row =
		prepare(r, "SELECT start, duration FROM steps WHERE step BETWEEN ?1 AND ?2", why, why_bytes);
	if (!row)
		return -EIO;
	sqlite3_bind_int64(row, 1, first);
	sqlite3_bind_int64(row, 2, last);
	int error = read_spans(r, row, &spans, &count, why, why_bytes);
	if (!error)
		return narrow(slice, spans, count, why, why_bytes);
	free(spans);
	return error;
}

static int take_ranges(struct slice *slice, const struct reader *r, const char *name, char *why, size_t why_bytes)
{
	static const char *const queries[] = {
		"SELECT g.start, g.duration FROM ranges g JOIN strings s ON s.id = g.name WHERE s.text GLOB ?1",
		"SELECT o.start, o.duration FROM operators o JOIN strings s ON s.id = o.name WHERE s.text GLOB ?1",
	};
	struct slice_span *spans = NULL;
	size_t count = 0;
	int error = 0;
	for (size_t i = 0; i < sizeof queries / sizeof *queries && !error; i++) {
		sqlite3_stmt *row = prepare(r, queries[i], why, why_bytes);
		if (row)
			sqlite3_bind_text(row, 1, name, -1, SQLITE_STATIC);
		error = row ? read_spans(r, row, &spans, &count, why, why_bytes) : -EIO;
	}
	if (!error && count == SPANS_MAX) {
		snprintf(why, why_bytes, "more than %d ranges and operators are named %.200s; give a narrower name",
			 SPANS_MAX, name);
		error = -ENOENT;
	} else if (!error && !count) {
		snprintf(why, why_bytes,
			 "the capture has no range and no operator named %.200s; `profd show --by ranges` lists them",
			 name);
		error = -ENOENT;
	}
	if (!error)
		return narrow(slice, spans, count, why, why_bytes);
	free(spans);
	return error;
}

static int take_time(struct slice *slice, const struct reader *r, const struct export_options *options, char *why,
		     size_t why_bytes)
{
	int64_t from = figure_time(reader_meta_int(r, "record_start", 0)),
		to = figure_time(reader_meta_int(r, "record_end", 0)), begin = from + figure_length(options->begin),
		end = from + figure_length(options->end);
	if (to > from && begin >= to) {
		snprintf(why, why_bytes, "the recording ends %.3f ms after its beginning; choose an earlier time",
			 (double)(to - from) / 1e6);
		return -ENOENT;
	}
	struct slice_span *span = malloc(sizeof *span);
	if (!span)
		return no_memory(why, why_bytes);
	*span = (struct slice_span){begin, end};
	return narrow(slice, span, 1, why, why_bytes);
}

int slice_find(struct slice *slice, const struct reader *r, const struct export_options *options, char *why,
	       size_t why_bytes)
{
	int error = 0;
	*slice = (struct slice){.devices = options->devices, .device_count = options->device_count};
	if (options->first_step || options->last_step)
		error = take_steps(slice, r, options, why, why_bytes);
	if (!error && options->range)
		error = take_ranges(slice, r, options->range, why, why_bytes);
	if (!error && (options->begin || options->end))
		error = take_time(slice, r, options, why, why_bytes);
	if (!error && slice->timed && !slice->count) {
		snprintf(
			why, why_bytes,
			"nothing lies in all that was asked for: the steps, the ranges and the time have no moment in common");
		error = -ENOENT;
	}
	return error;
}

void slice_deinit(struct slice *slice)
{
	free(slice->spans);
	*slice = (struct slice){0};
}

bool slice_time(const struct slice *slice, int64_t start, int64_t duration)
{
	if (!slice->timed)
		return true;
	int64_t end = duration > 0 ? start + duration : start + 1;
	/* The first span that ends after `start`. */
	size_t low = ARRAY_BEFORE(slice->count, middle, slice->spans[middle].end <= start);
	return low < slice->count && slice->spans[low].start < end;
}

bool slice_device(const struct slice *slice, uint32_t device)
{
	for (size_t i = 0; i < slice->device_count; i++)
		if (slice->devices[i] == device)
			return true;
	return !slice->device_count;
}

bool slice_operation(const struct slice *slice, uint32_t device, int64_t start, int64_t duration, int64_t call_start,
		     int64_t call_duration)
{
	return slice_device(slice, device) && (slice_time(slice, start, duration) ||
					       (call_duration >= 0 && slice_time(slice, call_start, call_duration)));
}

static void part(sqlite3_context *context, int count, sqlite3_value **values)
{
	(void)count;
	const struct slice *slice = sqlite3_user_data(context);
	bool known = sqlite3_value_type(values[0]) != SQLITE_NULL;
	sqlite3_result_int(context,
			   !slice->timed || (known && slice_time(slice, figure_time(sqlite3_value_int64(values[0])),
								 figure_length(sqlite3_value_int64(values[1])))));
}

static void device_part(sqlite3_context *context, int count, sqlite3_value **values)
{
	(void)count;
	sqlite3_result_int(context, slice_device(sqlite3_user_data(context), (uint32_t)sqlite3_value_int64(values[0])));
}

/* Without functions: they are taken away. */
static int set_functions(const struct slice *slice, const struct reader *r,
			 void (*times)(sqlite3_context *, int, sqlite3_value **),
			 void (*devices)(sqlite3_context *, int, sqlite3_value **))
{
	const int flags = SQLITE_UTF8 | SQLITE_DIRECTONLY;
	if (sqlite3_create_function_v2(r->db, "profd_part", 2, flags, (void *)slice, times, NULL, NULL, NULL) !=
		    SQLITE_OK ||
	    sqlite3_create_function_v2(r->db, "profd_device_part", 1, flags, (void *)slice, devices, NULL, NULL,
				       NULL) != SQLITE_OK)
		return -EIO;
	return 0;
}

int slice_register(const struct slice *slice, const struct reader *r)
{
	return set_functions(slice, r, part, device_part);
}

void slice_unregister(const struct reader *r)
{
	set_functions(NULL, r, NULL, NULL);
}
