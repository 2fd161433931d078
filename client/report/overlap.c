/* overlap.c - what ran at the same time on each device: communication and copies during compute (as the breakdown
 * counts them), and streams beside each other. Times are unions of intervals inside of the steps. */
#include "filter.h"
#include "query.h"
#include "proto/base/array.h"
#include "verdict.h"
#include "views.h"

#include "client/ui/figure.h"
#include "client/ui/text.h"

#include "store/breakdown/load.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

enum { O_DEVICE, O_STREAM, O_WHAT, O_BUSY, O_WITH, O_OVERLAPPED, O_ALONE, O_PERCENT };

static const struct column columns[] = {
	[O_DEVICE] = {"device", "DEVICE", COLUMN_NUMBER, 0},
	[O_STREAM] = {"stream", "STREAM", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	[O_WHAT] = {"what", "WHAT", COLUMN_TEXT, 0},
	[O_BUSY] = {"busy_ns", "BUSY", COLUMN_DURATION, 0},
	[O_WITH] = {"with", "WITH", COLUMN_TEXT, COLUMN_SPARE},
	[O_OVERLAPPED] = {"overlapped_ns", "TOGETHER", COLUMN_DURATION, 0},
	[O_ALONE] = {"alone_ns", "ALONE", COLUMN_DURATION, 0},
	[O_PERCENT] = {"overlapped_percent", "TOGETHER %", COLUMN_PERCENT, COLUMN_BARRED},
};

struct interval {
	int64_t device, stream, start, end;
};

struct intervals {
	struct interval *list;
	size_t count, room;
};

struct window {
	int64_t start, end;
};

static void add_row(struct table *table, int64_t device, int64_t stream, const char *what, const char *with,
		    int64_t overlapped, int64_t alone)
{
	int64_t busy = overlapped + alone;

	table_add(table);
	table_set(table, O_DEVICE, device);
	if (stream >= 0)
		table_set(table, O_STREAM, stream);
	table_set_text(table, O_WHAT, what);
	table_set_text(table, O_WITH, with);
	table_set(table, O_BUSY, busy);
	table_set(table, O_OVERLAPPED, overlapped);
	table_set(table, O_ALONE, alone);
	if (busy > 0)
		table_set_real(table, O_PERCENT, (double)overlapped * 100 / (double)busy);
}

/* --- by kind, from the breakdown --- */

static void add_kinds(struct table *table, const struct breakdown_device *device, size_t first, size_t last)
{
	int64_t hidden[2] = {0}, exposed[2] = {0};

	for (size_t i = first; i < last; i++) {
		figure_add(&hidden[0], device->steps[i].hidden_communication);
		figure_add(&hidden[1], device->steps[i].hidden_copies);
		figure_add(&exposed[0], device->steps[i].rows[DEVICE_COMMUNICATION]);
		figure_add(&exposed[1], device->steps[i].rows[DEVICE_COPIES]);
	}
	if (hidden[0] + exposed[0])
		add_row(table, device->device, -1, "communication", "compute", hidden[0], exposed[0]);
	if (hidden[1] + exposed[1])
		add_row(table, device->device, -1, "copies and memsets", "compute or communication", hidden[1],
			exposed[1]);
}

/* --- by stream --- */

static int by_stream(const void *a, const void *b)
{
	const struct interval *one = a, *other = b;

	return ORDER(one->device, other->device) ?: ORDER(one->stream, other->stream) ?: ORDER(one->start, other->start);
}

static void add_interval(struct intervals *to, struct interval interval)
{
	NEED_ROOM(to->list, to->count, to->room);
	to->list[to->count++] = interval;
}

static void load(const struct reader *reader, struct intervals *to, const char *sql)
{
	sqlite3_stmt *statement = report_prepare(reader, sql);

	while (report_next(reader, statement)) {
		int64_t start = figure_time(sqlite3_column_int64(statement, 2));

		add_interval(to,
			     (struct interval){sqlite3_column_int64(statement, 0), sqlite3_column_int64(statement, 1),
					       start, start + figure_length(sqlite3_column_int64(statement, 3))});
	}
}

/* Intervals of one stream that overlap become one. */
static void merge(struct intervals *intervals)
{
	size_t kept = 0;

	if (!intervals->count)
		return;
	qsort(intervals->list, intervals->count, sizeof *intervals->list, by_stream);
	for (size_t i = 1; i < intervals->count; i++) {
		struct interval *last = &intervals->list[kept];
		const struct interval *next = &intervals->list[i];

		if (next->device == last->device && next->stream == last->stream && next->start <= last->end)
			last->end = next->end > last->end ? next->end : last->end;
		else
			intervals->list[++kept] = *next;
	}
	intervals->count = kept + 1;
}

/* Keeps the parts that lie in windows. Windows are sorted. */
static void clip(struct intervals *intervals, const struct window *windows, size_t count)
{
	struct intervals inside = {0};
	size_t first = 0;

	for (size_t i = 0; i < intervals->count; i++) {
		const struct interval *whole = &intervals->list[i];

		/* Intervals of one stream come in order. For a new stream the search begins again. */
		if (i && (whole[-1].device != whole->device || whole[-1].stream != whole->stream))
			first = 0;
		while (first < count && windows[first].end <= whole->start)
			first++;
		for (size_t w = first; w < count && windows[w].start < whole->end; w++) {
			struct interval part = *whole;

			part.start = part.start > windows[w].start ? part.start : windows[w].start;
			part.end = part.end < windows[w].end ? part.end : windows[w].end;
			if (part.end > part.start)
				add_interval(&inside, part);
		}
	}
	free(intervals->list);
	*intervals = inside;
}

struct edge {
	int64_t time;
	size_t stream; /* its index among the device's streams */
	bool begins;
};

static int by_time(const void *a, const void *b)
{
	const struct edge *one = a, *other = b;

	return ORDER(one->time, other->time) ?: ORDER(one->begins, other->begins);
}

struct stream {
	int64_t id, together, alone;
	bool active;
};

/* Adds a stretch of time to the streams that worked in it. */
static void pass(struct stream *streams, size_t count, size_t active, int64_t ns)
{
	for (size_t s = 0; active && s < count; s++)
		if (streams[s].active) {
			figure_add(&streams[s].together, active > 1 ? ns : 0);
			figure_add(&streams[s].alone, active > 1 ? 0 : ns);
		}
}

static void add_streams(struct table *table, const struct interval *list, size_t count)
{
	struct edge *edges = need(calloc(2 * count + 1, sizeof *edges));
	struct stream *streams = need(calloc(count + 1, sizeof *streams));
	size_t stream_count = 0, active = 0;
	char what[40];

	for (size_t i = 0; i < count; i++) {
		if (!i || list[i - 1].stream != list[i].stream)
			streams[stream_count++].id = list[i].stream;
		edges[2 * i] = (struct edge){list[i].start, stream_count - 1, true};
		edges[2 * i + 1] = (struct edge){list[i].end, stream_count - 1, false};
	}
	qsort(edges, 2 * count, sizeof *edges, by_time);
	for (size_t i = 0; i < 2 * count; i++) {
		if (i)
			pass(streams, stream_count, active, edges[i].time - edges[i - 1].time);
		streams[edges[i].stream].active = edges[i].begins;
		active += edges[i].begins ? 1 : 0;
		active -= edges[i].begins ? 0 : 1;
	}
	for (size_t s = 0; s < stream_count; s++) {
		snprintf(what, sizeof what, "stream %" PRId64, streams[s].id);
		add_row(table, list->device, streams[s].id, what, "other streams", streams[s].together,
			streams[s].alone);
	}
	free(edges);
	free(streams);
}

#define LOAD(table) "SELECT device, stream, start, duration FROM " table " WHERE start IS NOT NULL"

struct table *report_overlap(const struct reader *reader, const struct report_options *options)
{
	static const char *const loads[] = {LOAD("kernel_records"), LOAD("copy_records"), LOAD("set_records"),
					    LOAD("graph_records")};
	struct table *table = table_new(COUNTED(columns));
	struct breakdown_capture own;
	struct intervals intervals = {0};
	struct window *windows;
	size_t first = 0, last;

	const struct breakdown_capture *capture = verdict_rows(reader, options, &own);
	if (!capture->device) {
		breakdown_capture_free(&own);
		return table;
	}
	last = capture->breakdown.step_count;
	if (options->step) {
		first = (size_t)(options->step - 1) < last ? (size_t)(options->step - 1) : last;
		last = first < last ? first + 1 : last;
	}
	windows = need(calloc(last - first + 1, sizeof *windows));
	for (size_t i = first; i < last; i++)
		windows[i - first] =
			(struct window){capture->breakdown.steps[i].start, capture->breakdown.steps[i].end};
	for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
		load(reader, &intervals, loads[i]);
	merge(&intervals);
	clip(&intervals, windows, last - first);
	for (size_t i = 0; i < capture->breakdown.device_count; i++) {
		const struct breakdown_device *device = &capture->breakdown.devices[i];
		size_t from = 0, to;

		if (!filter_has_device(options->filter, device->device))
			continue;
		add_kinds(table, device, first, last);
		while (from < intervals.count && intervals.list[from].device != device->device)
			from++;
		for (to = from; to < intervals.count && intervals.list[to].device == device->device;)
			to++;
		if (to > from)
			add_streams(table, intervals.list + from, to - from);
	}
	free(windows);
	free(intervals.list);
	breakdown_capture_free(&own);
	return table;
}
