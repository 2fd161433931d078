/* tracks.c - see tracks.h.
 *
 * Slices have the category that Kineto gives to the windows of a trace: HolisticTraceAnalysis and TensorBoard's plugin know that
 * these are no work of anybody. */
#include "tracks.h"

#include "proto/base/array.h"
#include "store/breakdown/load.h"
#include "store/findings/json.h"

#include "event.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

/* Intervals of the counters over a capture, and the shortest: a longer list of values shows no more on a screen. */
#define INTERVALS 2000
#define INTERVAL_NS 1000
/* Slices of all tracks. Where a million operators alternate with what is outside of them, each would be a slice, and the trace twice
 * as large. */
#define SLICES_MAX 200000
#define JOINED_NS 1000
/* The process of the tracks, behind all pids and all numbers that lanes take; and its place, behind the processes. */
#define PROCESS INT64_C(990000000)
#define SORT_INDEX 4999999

/* Index of a device; SIZE_MAX where there are too many. */
static size_t device_index(struct tracks *tracks, int64_t device)
{
	for (size_t i = 0; i < tracks->device_count; i++)
		if (tracks->devices[i] == device)
			return i;
	if (tracks->device_count == sizeof tracks->devices / sizeof *tracks->devices)
		return SIZE_MAX;
	tracks->devices[tracks->device_count] = device;
	return tracks->device_count++;
}

#define ROWS_MAX ((int)HOST_ROWS > (int)IDLE_ROWS ? (int)HOST_ROWS : (int)IDLE_ROWS)

/* Makes one slice of the slices from `at` on that are one stretch of a track and shorter than the bound. Returns the
 * place behind them. */
static size_t join_from(const struct tracks *tracks, size_t at, struct tracks_slice *ret)
{
	int64_t total[(int)HOST_ROWS + (int)IDLE_ROWS] = {0};
	*ret = tracks->slices[at];
	do {
		const struct tracks_slice *slice = &tracks->slices[at++];
		total[slice->row] += slice->end - slice->start;
		ret->end = slice->end;
	} while (at < tracks->slice_count && ret->end - ret->start < tracks->joined &&
		 tracks->slices[at].track == ret->track && tracks->slices[at].start == ret->end &&
		 tracks->slices[at].end - tracks->slices[at].start < tracks->joined);
	for (int row = 0; row < ROWS_MAX; row++)
		if (total[row] > total[ret->row])
			ret->row = (uint16_t)row;
	return at;
}

static void join_slices(struct tracks *tracks)
{
	size_t kept = 0;
	for (size_t at = 0; at < tracks->slice_count;) {
		struct tracks_slice joined, *last = kept ? &tracks->slices[kept - 1] : NULL;
		at = join_from(tracks, at, &joined);
		if (last && last->track == joined.track && last->row == joined.row && last->end == joined.start)
			last->end = joined.end;
		else
			tracks->slices[kept++] = joined;
	}
	tracks->slice_count = kept;
}

static void join_until_few(struct tracks *tracks)
{
	while (tracks->slice_count > SLICES_MAX / 2 && tracks->joined < INT64_MAX / 8) {
		tracks->joined = tracks->joined ? tracks->joined * 2 : JOINED_NS;
		join_slices(tracks);
	}
}

/* What goes on as before is the same slice. Pieces of one side come in the order of time. */
static void add_slice(struct tracks *tracks, const struct tracks_slice *slice)
{
	struct tracks_slice *last = tracks->slice_count ? &tracks->slices[tracks->slice_count - 1] : NULL;
	if (last && last->track == slice->track && last->row == slice->row && last->end == slice->start) {
		last->end = slice->end;
		return;
	}
	if (tracks->slice_count == SLICES_MAX)
		join_until_few(tracks);
	tracks->failed = tracks->failed || !ARRAY_GROW(tracks->slices, tracks->slice_count, tracks->slice_room);
	if (!tracks->failed)
		tracks->slices[tracks->slice_count++] = *slice;
}

static void on_piece(void *context, const struct breakdown_piece *piece)
{
	struct tracks *tracks = context;
	struct tracks_slice slice = {.start = piece->start, .end = piece->end, .row = (uint16_t)piece->row};
	if (!slice_time(tracks->part, piece->start, piece->end - piece->start))
		return;
	if (piece->device >= 0) {
		size_t index = device_index(tracks, piece->device);
		if (index == SIZE_MAX || piece->idle < 0 || !slice_device(tracks->part, (uint32_t)piece->device))
			return;
		slice.track = (uint16_t)(index + 1);
		slice.row = (uint16_t)piece->idle;
	}
	add_slice(tracks, &slice);
}

/* --- counters --- */

struct edge {
	int64_t time;
	int32_t waiting; /* +1: launched, -1: begun */
};

static int by_time(const void *left, const void *right)
{
	const struct edge *a = left, *b = right;
	/* An operation that begins when another one is launched did not wait together with it. */
	return a->time != b->time ? (a->time < b->time ? -1 : 1) : a->waiting - b->waiting;
}

/* Values of one device: its operations are from..to, sorted by their starts. */
struct counting {
	struct tracks *tracks;
	const struct breakdown *breakdown;
	size_t index, from, to;
	int64_t begin, end;
	int64_t *busy;	  /* ns, by interval */
	uint32_t *queued; /* most, by interval */
	size_t intervals;
};

static size_t interval_at(const struct counting *c, int64_t time)
{
	size_t at = time <= c->begin ? 0 : (size_t)((time - c->begin) / c->tracks->interval);
	return at < c->intervals ? at : c->intervals - 1;
}

static void count_busy(const struct counting *c)
{
	int64_t done = c->begin;
	for (size_t i = c->from; i < c->to; i++) {
		const struct breakdown_operation *operation = &c->breakdown->operations[i];
		int64_t start = operation->start > done ? operation->start : done;
		int64_t end = operation->end < c->end ? operation->end : c->end;
		for (size_t at = interval_at(c, start); start < end && at < c->intervals; at++) {
			int64_t stop = c->begin + (int64_t)(at + 1) * c->tracks->interval;
			int64_t until = stop < end && at + 1 < c->intervals ? stop : end;
			if (until > start)
				c->busy[at] += until - start;
			start = until > start ? until : start;
		}
		done = end > done ? end : done;
	}
}

static bool count_queued(const struct counting *c)
{
	struct edge *edges = malloc((c->to - c->from + 1) * 2 * sizeof *edges);
	size_t count = 0, at = 0;
	int64_t waiting = 0;
	if (!edges)
		return false;
	for (size_t i = c->from; i < c->to; i++) {
		const struct breakdown_operation *operation = &c->breakdown->operations[i];
		if (operation->call >= c->breakdown->call_count ||
		    c->breakdown->calls[operation->call].start > operation->start)
			continue;
		edges[count++] = (struct edge){c->breakdown->calls[operation->call].start, 1};
		edges[count++] = (struct edge){operation->start, -1};
	}
	qsort(edges, count, sizeof *edges, by_time);
	for (size_t interval = 0; interval < c->intervals; interval++) {
		int64_t stop = c->begin + (int64_t)(interval + 1) * c->tracks->interval, most = waiting;
		for (; at < count && (edges[at].time < stop || interval + 1 == c->intervals); at++) {
			waiting += edges[at].waiting;
			most = waiting > most ? waiting : most;
		}
		c->queued[interval] = most > 0 ? (uint32_t)most : 0;
	}
	free(edges);
	return true;
}

/* A value is written where it changes. */
static void keep_values(const struct counting *c)
{
	struct tracks *tracks = c->tracks;
	struct tracks_value last = {.busy = -1};
	for (size_t i = 0; i < c->intervals; i++) {
		int64_t start = c->begin + (int64_t)i * tracks->interval;
		int64_t length = c->end - start < tracks->interval ? c->end - start : tracks->interval;
		int64_t permille = c->busy[i] * 1000 / (length > 0 ? length : 1);
		struct tracks_value value = {.time = start,
					     .device = (uint32_t)c->index,
					     .queued = c->queued[i],
					     .busy = (double)permille / 10};
		if ((value.busy >= last.busy && value.busy <= last.busy && value.queued == last.queued) ||
		    !slice_time(tracks->part, start, length))
			continue;
		tracks->failed = tracks->failed || !ARRAY_GROW(tracks->values, tracks->value_count, tracks->value_room);
		if (tracks->failed)
			return;
		tracks->values[tracks->value_count++] = last = value;
	}
}

static void count_device(struct counting *c)
{
	c->busy = calloc(c->intervals, sizeof *c->busy);
	c->queued = calloc(c->intervals, sizeof *c->queued);
	if (c->busy && c->queued && count_queued(c)) {
		count_busy(c);
		keep_values(c);
	} else {
		c->tracks->failed = true;
	}
	free(c->busy);
	free(c->queued);
}

static void count_devices(struct tracks *tracks, const struct breakdown *breakdown)
{
	struct counting c = {.tracks = tracks, .breakdown = breakdown};
	for (size_t i = 0; i < breakdown->operation_count; i++) {
		const struct breakdown_operation *operation = &breakdown->operations[i];
		c.begin = i == 0 || operation->start < c.begin ? operation->start : c.begin;
		c.end = i == 0 || operation->end > c.end ? operation->end : c.end;
	}
	for (size_t i = 0; i < breakdown->step_count; i++) {
		c.begin = breakdown->steps[i].start < c.begin ? breakdown->steps[i].start : c.begin;
		c.end = breakdown->steps[i].end > c.end ? breakdown->steps[i].end : c.end;
	}
	tracks->interval = (c.end - c.begin) / INTERVALS + 1;
	if (tracks->interval < INTERVAL_NS)
		tracks->interval = INTERVAL_NS;
	c.intervals = (size_t)((c.end - c.begin) / tracks->interval) + 1;
	for (; c.from < breakdown->operation_count; c.from = c.to) {
		int64_t device = breakdown->operations[c.from].device;
		for (c.to = c.from; c.to < breakdown->operation_count && breakdown->operations[c.to].device == device;)
			c.to++;
		c.index = device_index(tracks, device);
		if (c.index != SIZE_MAX && slice_device(tracks->part, (uint32_t)device))
			count_device(&c);
	}
}

/* --- finding --- */

static bool may_go_on(void *context)
{
	return bounds_row(context);
}

/* If the causes are in doubt they are not known: neighbouring stretches are then one. */
static void forget_causes(struct tracks *tracks)
{
	size_t count = tracks->slice_count;
	tracks->slice_count = 0;
	for (size_t i = 0; i < count; i++) {
		struct tracks_slice slice = tracks->slices[i];
		if (slice.track)
			slice.row = IDLE_UNKNOWN;
		add_slice(tracks, &slice);
	}
}

static bool keep_verdict(struct tracks *tracks, const struct breakdown_capture *capture, sqlite3 *db,
			 const struct breakdown_watch *watch, int *ret_error)
{
	struct findings findings;
	if (!findings_make(capture, db, watch, &findings, ret_error))
		return false;
	cJSON *json = findings_json(&findings, NULL);
	tracks->verdict = json ? cJSON_PrintUnformatted(json) : NULL;
	cJSON_Delete(json);
	tracks->failed |= !tracks->verdict;
	return true;
}

int tracks_find(struct tracks *tracks, const struct reader *r, int64_t schema, const struct slice *part)
{
	const struct breakdown_listener listener = {on_piece, tracks};
	const struct breakdown_watch watch = {.row = may_go_on, .context = r->bounds, .listener = &listener};
	struct breakdown_capture capture;
	int error = 0;
	*tracks = (struct tracks){.part = part};
	/* Schema 1 knows no devices, and its operators nothing of phases. */
	if (schema < 2)
		return 0;
	bool ok = breakdown_capture_load(r->db, &watch, &capture, &error);
	if (ok) {
		tracks->step_thread = capture.breakdown.step_thread;
		if (capture.doubt[0])
			forget_causes(tracks);
		if (tracks->joined)
			join_slices(tracks);
		if (capture.device && capture.breakdown.operation_count)
			count_devices(tracks, &capture.breakdown);
		if (capture.breakdown.step_count)
			ok = keep_verdict(tracks, &capture, r->db, &watch, &error);
	}
	breakdown_capture_free(&capture);
	if (tracks->failed || error == SQLITE_NOMEM)
		return -ENOMEM;
	return ok ? 0 : -EIO;
}

void tracks_deinit(struct tracks *tracks)
{
	free(tracks->slices);
	free(tracks->values);
	cJSON_free(tracks->verdict);
	*tracks = (struct tracks){0};
}

/* --- writing --- */

static int64_t process_of(const struct chrome *c)
{
	return PROCESS + (int64_t)c->index * 1000;
}

static void put_names(const struct tracks *tracks, const struct chrome *c, struct buffer *b)
{
	char text[96];
	int64_t process = process_of(c);
	event_metadata(b, "process_name", "name", process, 0);
	BUFFER_PUT(b, "\"profd: where the time goes\"}}");
	event_metadata(b, "process_sort_index", "sort_index", process, 0);
	buffer_put_int(b, SORT_INDEX);
	BUFFER_PUT(b, "}}");
	if (tracks->joined) {
		snprintf(text, sizeof text, "stretches under %" PRId64 " us are joined", tracks->joined / 1000);
		event_metadata(b, "process_labels", "labels", process, 0);
		buffer_put_string(b, text);
		BUFFER_PUT(b, "}}");
	}
	for (size_t i = 0; i <= tracks->device_count; i++) {
		if (i && !slice_device(tracks->part, (uint32_t)tracks->devices[i - 1]))
			continue;
		if (i)
			snprintf(text, sizeof text, "device %" PRId64 " idle, by cause", tracks->devices[i - 1]);
		else
			snprintf(text, sizeof text, "step thread %" PRIu32 ", by phase", tracks->step_thread);
		event_metadata(b, "thread_name", "name", process, process + 1 + (int64_t)i);
		buffer_put_string(b, text);
		BUFFER_PUT(b, "}}");
		event_metadata(b, "thread_sort_index", "sort_index", process, process + 1 + (int64_t)i);
		buffer_put_uint(b, i);
		BUFFER_PUT(b, "}}");
	}
}

static void put_slice(const struct chrome *c, struct buffer *b, const struct tracks_slice *slice)
{
	const char *title =
		slice->track ? breakdown_idle_rows[slice->row].title : breakdown_host_rows[slice->row].title;
	event_begin(b, 'X', "Trace");
	buffer_put_escaped(b, title, strlen(title));
	event_place_at(c, b, process_of(c), process_of(c) + 1 + slice->track, slice->start);
	BUFFER_PUT(b, ",\"dur\":");
	buffer_put_micros(b, slice->end - slice->start);
	BUFFER_PUT(b, "}");
}

static void put_value(const struct tracks *tracks, const struct chrome *c, struct buffer *b,
		      const struct tracks_value *value, bool queue)
{
	event_begin(b, 'C', "Trace");
	BUFFER_PUT(b, "device ");
	buffer_put_int(b, tracks->devices[value->device]);
	if (queue)
		BUFFER_PUT(b, " queue");
	else
		BUFFER_PUT(b, " busy");
	event_place_at(c, b, process_of(c), 0, value->time);
	if (queue) {
		BUFFER_PUT(b, ",\"args\":{\"operations\":");
		buffer_put_uint(b, value->queued);
	} else {
		BUFFER_PUT(b, ",\"args\":{\"percent\":");
		buffer_put_double(b, value->busy);
	}
	BUFFER_PUT(b, "}}");
}

int tracks_put(const struct tracks *tracks, const struct chrome *c, struct block *block)
{
	int error = 0;
	if (!tracks->slice_count && !tracks->value_count)
		return 0;
	put_names(tracks, c, &block->text);
	for (size_t i = 0; i < tracks->slice_count && !error; i++) {
		put_slice(c, &block->text, &tracks->slices[i]);
		error = block_flush_full(block);
	}
	for (size_t i = 0; i < tracks->value_count && !error; i++) {
		put_value(tracks, c, &block->text, &tracks->values[i], false);
		put_value(tracks, c, &block->text, &tracks->values[i], true);
		error = block_flush_full(block);
	}
	return error;
}
