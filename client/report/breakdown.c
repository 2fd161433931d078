/* breakdown.c - where a step's time goes, row by row, on the host's side and on each device's (docs/breakdown.md). */
#include "filter.h"
#include "query.h"
#include "use.h"
#include "verdict.h"
#include "views.h"

#include "client/ui/text.h"

#include "store/breakdown/load.h"
#include "store/findings/row_lines.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A bar of this many signs is a whole step. */
#define BAR 20

enum {
	B_SIDE,
	B_DEVICE,
	B_ROW,
	B_PARENT,
	B_TITLE,
	B_STEP,
	B_TOTAL,
	B_PERCENT,
	B_PLACE,
	B_LEAST,
	B_MOST,
	B_FILE,
	B_LINE,
	B_FUNCTION,
	B_LINE_SHARE,
	B_BAR
};

static const struct column columns[] = {
	[B_SIDE] = {"side", "SIDE", COLUMN_TEXT, 0},
	[B_DEVICE] = {"device", "DEVICE", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	[B_ROW] = {"row", "ROW", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[B_PARENT] = {"parent", "PARENT", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[B_TITLE] = {"", "WHAT", COLUMN_TEXT, COLUMN_TABLE_ONLY},
	[B_STEP] = {"step_ns", "A STEP", COLUMN_DURATION, 0},
	[B_TOTAL] = {"total_ns", "TOTAL", COLUMN_DURATION, COLUMN_DATA_ONLY},
	[B_PERCENT] = {"percent", "SHARE", COLUMN_PERCENT, 0},
	[B_PLACE] = {"", "LINE", COLUMN_TEXT, COLUMN_TABLE_ONLY | COLUMN_OPTIONAL | COLUMN_SPARE},
	[B_LEAST] = {"min_percent", "LEAST", COLUMN_PERCENT, COLUMN_SPARE},
	[B_MOST] = {"max_percent", "MOST", COLUMN_PERCENT, COLUMN_SPARE},
	[B_FILE] = {"file", "FILE", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[B_LINE] = {"line", "LINE", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	[B_FUNCTION] = {"function", "FUNCTION", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[B_LINE_SHARE] = {"line_percent", "LINE %", COLUMN_PERCENT, COLUMN_DATA_ONLY},
	[B_BAR] = {"", "", COLUMN_TEXT, COLUMN_TABLE_ONLY | COLUMN_SPARE},
};

/* A row, added up over the steps that are shown. */
struct sum {
	int64_t total;
	double least, most; /* in a step, % of its wall time */
};

struct breakdown_table {
	struct table *table;
	const struct breakdown *breakdown;
	size_t first, last; /* of the steps */
	int64_t wall;
	struct row_lines lines;
	sqlite3_stmt *places; /* finds the texts of a line's ids */
};

static void add_to(struct sum *sum, int64_t ns, int64_t wall, bool first)
{
	double percent = wall > 0 ? (double)ns * 100 / (double)wall : 0;
	sum->total += ns;
	sum->least = first || percent < sum->least ? percent : sum->least;
	sum->most = first || percent > sum->most ? percent : sum->most;
}

/* Sets the line of the newest row. */
static void set_line(struct breakdown_table *to, const struct row_line *line)
{
	char place[REPORT_LINE_BYTES], text[REPORT_LINE_BYTES + 16];
	if (!line->file)
		return;
	sqlite3_bind_int64(to->places, 1, line->file);
	sqlite3_bind_int64(to->places, 2, line->line);
	sqlite3_bind_int64(to->places, 3, line->function);
	if (sqlite3_step(to->places) == SQLITE_ROW && report_line(place, to->places, 0, 1)) {
		snprintf(text, sizeof text, "%s %.0f%%", place, line->share * 100);
		table_set_text(to->table, B_PLACE, text);
		report_cell(to->table, B_FILE, to->places, 0);
		report_cell(to->table, B_LINE, to->places, 1);
		report_cell(to->table, B_FUNCTION, to->places, 2);
		table_set_real(to->table, B_LINE_SHARE, line->share * 100);
	}
	sqlite3_reset(to->places);
}

static void add_row(struct breakdown_table *to, const char *side, int64_t device, const struct breakdown_row *row,
		    const char *parent, const struct sum *sum)
{
	struct table *table = to->table;
	char text[96];
	double percent = to->wall > 0 ? (double)sum->total * 100 / (double)to->wall : 0;
	int signs = (int)(percent * BAR / 100 + 0.5);
	table_add(table);
	table_set_text(table, B_SIDE, side);
	if (device >= 0)
		table_set(table, B_DEVICE, device);
	table_set_text(table, B_ROW, row->word);
	table_set_text(table, B_PARENT, parent);
	snprintf(text, sizeof text, "%s%s", parent ? "  " : "", row->title);
	table_set_text(table, B_TITLE, text);
	table_set(table, B_STEP, sum->total / (int64_t)(to->last - to->first));
	table_set(table, B_TOTAL, sum->total);
	table_set_real(table, B_PERCENT, percent);
	table_set_real(table, B_LEAST, sum->least);
	table_set_real(table, B_MOST, sum->most);
	signs = signs < 0 ? 0 : signs > BAR ? BAR : signs;
	memset(text, '#', (size_t)signs);
	text[signs] = '\0';
	table_set_text(table, B_BAR, text);
}

static int64_t wall_of(const struct breakdown_step *step)
{
	return step->end - step->start;
}

static void add_host(struct breakdown_table *to)
{
	for (size_t row = 0; row < HOST_ROWS; row++) {
		struct sum sum = {0};
		for (size_t i = to->first; i < to->last; i++)
			add_to(&sum, to->breakdown->steps[i].host[row], wall_of(&to->breakdown->steps[i]),
			       i == to->first);
		if (!sum.total)
			continue;
		add_row(to, "host", -1, &breakdown_host_rows[row], NULL, &sum);
		set_line(to, &to->lines.host[row]);
	}
}

static void add_device(struct breakdown_table *to, size_t index)
{
	const struct breakdown_device *device = &to->breakdown->devices[index];
	const struct row_line *lines = verdict_idle_lines(&to->lines, index);
	char side[40];
	snprintf(side, sizeof side, "device %" PRId64, device->device);
	for (size_t row = 0; row < DEVICE_ROWS; row++) {
		struct sum sum = {0};
		for (size_t i = to->first; i < to->last; i++)
			add_to(&sum, device->steps[i].rows[row], wall_of(&to->breakdown->steps[i]), i == to->first);
		if (sum.total || row == DEVICE_COMPUTE || row == DEVICE_IDLE)
			add_row(to, side, device->device, &breakdown_device_rows[row], NULL, &sum);
	}
	for (size_t row = 0; row < IDLE_ROWS; row++) {
		struct sum sum = {0};
		for (size_t i = to->first; i < to->last; i++)
			add_to(&sum, device->steps[i].idle[row], wall_of(&to->breakdown->steps[i]), i == to->first);
		if (!sum.total)
			continue;
		add_row(to, side, device->device, &breakdown_idle_rows[row], breakdown_device_rows[DEVICE_IDLE].word,
			&sum);
		if (lines)
			set_line(to, &lines[row]);
	}
}

struct table *report_breakdown(const struct reader *reader, const struct report_options *options)
{
	struct breakdown_capture own;
	const struct breakdown_capture *capture = verdict_rows(reader, options, &own);
	struct breakdown_table to = {.table = table_new(columns, sizeof columns / sizeof *columns),
				     .breakdown = &capture->breakdown};
	to.last = capture->breakdown.step_count;
	if (options->step) {
		to.first = (size_t)(options->step - 1);
		to.last = to.last > to.first ? to.first + 1 : to.first;
	}
	for (size_t i = to.first; i < to.last; i++)
		to.wall += wall_of(&capture->breakdown.steps[i]);
	if (to.last > to.first) {
		verdict_lines(reader, options, capture, &to.lines);
		to.places = report_prepare(reader, "SELECT (SELECT text FROM strings WHERE id = ?1), ?2, (SELECT text "
						   "FROM strings WHERE id = ?3)");
		for (size_t i = 0; capture->device && i < capture->breakdown.device_count; i++)
			if (filter_has_device(options->filter, capture->breakdown.devices[i].device))
				add_device(&to, i);
		add_host(&to);
		sqlite3_finalize(to.places);
		row_lines_free(&to.lines);
	}
	if (to.last > to.first)
		report_note_use(to.table, reader, &capture->breakdown, to.first, to.last, options->alone);
	if (capture->doubt[0] && capture->device && capture->breakdown.device_count)
		table_note(to.table, "why the devices were idle is not known: %s", capture->doubt);
	breakdown_capture_free(&own);
	return to.table;
}
