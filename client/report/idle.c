/* idle.c - when a device was idle, and why: one row for each stretch with one cause (docs/breakdown.md). */
#include "filter.h"
#include "query.h"
#include "recorded.h"
#include "spans.h"
#include "verdict.h"
#include "views.h"

#include "client/ui/text.h"
#include "proto/base/array.h"

#include <stdlib.h>

enum { I_STEP, I_START, I_END, I_LENGTH, I_DEVICE, I_ROW, I_TITLE, I_PHASE, I_IN, I_AFTER, I_NEXT, I_THREAD };

static const struct column columns[] = {
	[I_STEP] = {"step", "STEP", COLUMN_NUMBER, 0},
	[I_START] = {"start_ns", "START", COLUMN_DURATION, COLUMN_SPARE},
	[I_END] = {"end_ns", "END", COLUMN_DURATION, COLUMN_DATA_ONLY},
	[I_LENGTH] = {"duration_ns", "IDLE", COLUMN_DURATION, 0},
	[I_DEVICE] = {"device", "DEVICE", COLUMN_NUMBER, COLUMN_SPARE},
	[I_ROW] = {"row", "ROW", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[I_TITLE] = {"", "WHY", COLUMN_TEXT, COLUMN_TABLE_ONLY | COLUMN_ELASTIC},
	[I_PHASE] = {"phase", "PHASE", COLUMN_TEXT, COLUMN_SPARE},
	[I_IN] = {"in", "IN", COLUMN_TEXT, COLUMN_NAME},
	[I_AFTER] = {"after_sync", "AFTER THE WAIT", COLUMN_TEXT, COLUMN_SPARE | COLUMN_OPTIONAL},
	[I_NEXT] = {"next", "ENDED BY", COLUMN_TEXT, COLUMN_NAME},
	[I_THREAD] = {"thread", "THREAD", COLUMN_NUMBER, COLUMN_DATA_ONLY},
};

/* A stretch, and the figures beside it. */
struct idle_row_of {
	const struct breakdown_device *device;
	const struct breakdown_stretch *stretch;
};

static int64_t length_of(const struct breakdown_stretch *stretch)
{
	return breakdown_stretch_end(stretch) - stretch->start;
}

static int by_length(const void *a, const void *b)
{
	const struct breakdown_stretch *x = ((const struct idle_row_of *)a)->stretch,
				       *y = ((const struct idle_row_of *)b)->stretch;
	return ORDER(length_of(y), length_of(x)) ?: ORDER(x->start, y->start);
}

/* `names` is prepared once, since each of many rows has three names. */
static void set_name(struct table *table, size_t column, sqlite3_stmt *names, uint32_t id)
{
	if (!id)
		return;
	sqlite3_bind_int64(names, 1, (int64_t)id);
	if (sqlite3_step(names) == SQLITE_ROW)
		report_cell(table, column, names, 0);
	sqlite3_reset(names);
}

static int64_t middle_of(const struct breakdown_stretch *stretch)
{
	return stretch->start + length_of(stretch) / 2;
}

/* The phase of the step's thread at the middle of the stretch. */
static enum phase phase_of(const struct breakdown_capture *capture, struct breakdown_asked *asked,
			   const struct breakdown_stretch *stretch)
{
	return breakdown_phase(capture, asked, capture->breakdown.step_thread, middle_of(stretch));
}

static void add(struct table *table, sqlite3_stmt *names, const struct breakdown_capture *capture,
		const struct idle_row_of *row)
{
	const struct breakdown *breakdown = &capture->breakdown;
	const struct breakdown_stretch *stretch = row->stretch;
	const struct breakdown_idle *idle = &row->device->idles[stretch->idle];
	int64_t middle = middle_of(stretch);
	enum phase phase = phase_of(capture, &(struct breakdown_asked){0}, stretch);
	uint32_t thread = breakdown_launcher(breakdown, idle);
	size_t step = breakdown_step_of(breakdown, stretch->start);

	table_add(table);
	if (step != SIZE_MAX)
		table_set(table, I_STEP, (int64_t)step + 1);
	table_set(table, I_START, stretch->start);
	table_set(table, I_END, breakdown_stretch_end(stretch));
	table_set(table, I_LENGTH, breakdown_stretch_end(stretch) - stretch->start);
	table_set(table, I_DEVICE, row->device->device);
	table_set_text(table, I_ROW, breakdown_idle_rows[stretch->cause].word);
	table_set_text(table, I_TITLE, breakdown_idle_rows[stretch->cause].title);
	table_set_text(table, I_PHASE, phase == PHASE_NONE ? NULL : breakdown_phase_row(phase)->word);
	if (idle->next < breakdown->operation_count) {
		const struct breakdown_operation *next = &breakdown->operations[idle->next];

		if (next->name)
			set_name(table, I_NEXT, names, next->name);
		else
			table_set_text(table, I_NEXT, next->row == DEVICE_COPIES ? "(copy or memset)" : "(CUDA graph)");
	}
	table_set(table, I_THREAD, thread);
	set_name(table, I_IN, names, spans_name(&capture->activity, thread, middle, SPANS_ANY));
	if (idle->after_sync)
		set_name(table, I_AFTER, names,
			 spans_name(&capture->activity, idle->sync_thread, idle->sync_start, SPANS_ANY));
}

/* A stretch is shown by the phase beside it. */
static bool is_shown(const struct breakdown_capture *capture, struct breakdown_asked *asked,
		     const struct report_options *options, const struct breakdown_stretch *stretch)
{
	if (options->step && breakdown_step_of(&capture->breakdown, stretch->start) != (size_t)options->step - 1)
		return false;
	return !options->filter || filter_has_phase(options->filter, phase_of(capture, asked, stretch));
}

/* Nobody reads more rows. The longest ones are kept, and the number of all is told. */
#define ROWS_MOST 10000

/* Keeps the longest stretches, and those that are as long as the last of them. Returns how many are kept. */
static size_t keep_longest(struct idle_row_of *rows, size_t count)
{
	size_t kept = 0;

	if (count <= ROWS_MOST)
		return count;
	int64_t *lengths = need(calloc(count, sizeof *lengths));
	for (size_t i = 0; i < count; i++)
		lengths[i] = length_of(rows[i].stretch);
	int64_t least = array_value_at(lengths, count, count - ROWS_MOST);
	free(lengths);
	for (size_t i = 0; i < count; i++)
		if (length_of(rows[i].stretch) >= least)
			rows[kept++] = rows[i];
	return kept;
}

struct table *report_idle(const struct reader *reader, const struct report_options *options)
{
	struct table *table = table_new(columns, sizeof columns / sizeof *columns);
	struct breakdown_capture own;
	struct idle_row_of *rows = NULL;
	struct breakdown_asked asked = {0};
	size_t count = 0, all = 0;

	if (!report_gpu(reader))
		return table;
	const struct breakdown_capture *capture = verdict_intervals(reader, options, &own);
	for (size_t d = 0; d < capture->breakdown.device_count; d++)
		all += capture->breakdown.devices[d].stretch_count;
	rows = need(calloc(all + 1, sizeof *rows));
	for (size_t d = 0; d < capture->breakdown.device_count; d++) {
		const struct breakdown_device *device = &capture->breakdown.devices[d];

		if (!filter_has_device(options->filter, device->device))
			continue;
		for (size_t i = 0; i < device->stretch_count; i++)
			if (device->stretches[i].row == DEVICE_IDLE &&
			    is_shown(capture, &asked, options, &device->stretches[i]))
				rows[count++] = (struct idle_row_of){device, &device->stretches[i]};
	}
	size_t kept = keep_longest(rows, count);
	qsort(rows, kept, sizeof *rows, by_length);
	sqlite3_stmt *names = report_prepare(reader, "SELECT text FROM strings WHERE id = coalesce((SELECT short FROM "
						     "kernel_names WHERE mangled = ?1), ?1)");
	for (size_t i = 0; i < kept && i < ROWS_MOST; i++)
		add(table, names, capture, &rows[i]);
	sqlite3_finalize(names);
	table_set_whole(table, count);
	free(rows);
	breakdown_capture_free(&own);
	return table;
}
