/* exporter.c - writes one capture's events as Chrome trace events, in the shape that Kineto gives them: steps and the
 * flows from forward to backward; host_events.h has what else the host did, gpu.h what concerns devices, tracks.h the breakdown.
 *
 * A table is cut into jobs of some thousand rows. Each job reads its rows, in the order of arrival, and formats them in
 * a thread of its own with a connection of its own; the stream puts the jobs' texts in order. What is shared (names,
 * tracks) is read-only by then, but for `flows`, which jobs fill one at a time, in their turn. A new kind of event is a
 * row of `kinds` and a function that puts one event. Events have no blanks between their members: to write them took a
 * tenth of the time. */
#include "exporter.h"

#include "chrome_head.h"

#include "proto/events.h"
#include "event.h"
#include "client/ui/figure.h"
#include "flows.h"
#include "gpu.h"
#include "gpu_kernel.h"
#include "host_events.h"
#include "nesting_tables.h"
#include "samples.h"
#include "tracks.h"
#include "client/export/export.h"
#include "client/export/scan.h"
#include "client/export/stream.h"
#include "client/export/workers.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

/* Rows of one job: about a block of text. */
#define JOB_ROWS 4096

enum kind {
	KIND_RANGES,
	KIND_MARKS,
	KIND_FUNCTIONS, /* stand in no table; around operators, and so before them */
	KIND_OPERATORS,
	KINDS_OF_1, /* what files of schema 1 have of them; KINDS_OF_3: of schemas 2 and 3 */
	KIND_API_CALLS = KINDS_OF_1,
	KIND_OVERHEADS,
	KIND_KERNELS,
	KIND_COPIES,
	KIND_SETS,
	KIND_GRAPHS,
	KIND_SYNCS,
	KINDS_OF_3,
	KIND_MEMORY = KINDS_OF_3,
	KINDS
};

struct exporter;

struct worker {
	struct reader reader;
	struct host_events host;
	size_t moves_at[NESTING_TABLES]; /* of devices' tables */
	sqlite3_stmt *find_operator;
	uint64_t timeless, flows_left_out, functions_left_out;
	/* The job in hand */
	struct exporter *export;
	struct block *block;
	enum kind kind;
};

struct exporter {
	struct chrome chrome;
	struct slice part;
	struct tracks tracks;
	struct worker *workers;
	unsigned worker_count;
	struct nesting_rows rows[KINDS];
	uint64_t jobs_at[KINDS + 1];
	int64_t index_at[KINDS]; /* "Ev Idx" of the kind's first row */
	bool bare_ranges;	 /* the file is older than their inputs */
	uint64_t samples_left_out;
	struct flows flows;
};

typedef int (*put_event)(const struct chrome *c, struct host_events *h, struct buffer *b, sqlite3_value **row,
			 int64_t index);

/* Column 0 is the row's number. Those of the device side, which have `gpu`, have no "Ev Idx", as in Kineto's traces. */
static const struct {
	const char *table, *query;
	put_event put;
	gpu_put gpu;
	enum nesting_table nesting;
} kinds[KINDS] = {
	[KIND_RANGES] = {"ranges", host_range_query, .put = host_put_range},
	[KIND_MARKS] = {"marks", host_mark_query, .put = host_put_mark},
	[KIND_OPERATORS] = {"operators", host_operator_query, .put = host_put_operator},
	[KIND_API_CALLS] = {"api_calls", gpu_api_call_query, .gpu = gpu_put_api_call, .nesting = NESTING_API_CALLS},
	[KIND_OVERHEADS] = {"overheads", gpu_overhead_query, .gpu = gpu_put_overhead, .nesting = NESTING_OVERHEADS},
	[KIND_KERNELS] = {"kernel_records", gpu_kernel_query, .gpu = gpu_put_kernel, .nesting = NESTING_KERNELS},
	[KIND_COPIES] = {"copy_records", gpu_copy_query, .gpu = gpu_put_copy, .nesting = NESTING_COPIES},
	[KIND_SETS] = {"set_records", gpu_set_query, .gpu = gpu_put_set, .nesting = NESTING_SETS},
	[KIND_GRAPHS] = {"graph_records", gpu_graph_query, .gpu = gpu_put_graph, .nesting = NESTING_GRAPHS},
	[KIND_SYNCS] = {"syncs", gpu_sync_query, .gpu = gpu_put_sync, .nesting = NESTING_SYNCS},
	[KIND_MEMORY] = {"framework_allocations", host_memory_query, .put = host_put_memory},
};

static int put_row(void *user, sqlite3_value **row)
{
	struct worker *w = user;
	struct exporter *e = w->export;
	int64_t at = sqlite3_value_int64(row[0]);
	int error = 0;
	if (kinds[w->kind].gpu) {
		enum nesting_table table = kinds[w->kind].nesting;
		kinds[w->kind].gpu(&(struct gpu_row){
			.chrome = &e->chrome,
			.buffer = &w->block->text,
			.values = row,
			.lane = nesting_lane(&e->chrome.nesting, table, at, &w->moves_at[table]),
			.reader = &w->reader,
			.find_operator = &w->find_operator,
			.timeless = &w->timeless,
			.flows_left_out = &w->flows_left_out,
		});
	} else {
		error = kinds[w->kind].put(&e->chrome, &w->host, &w->block->text, row,
					   e->index_at[w->kind] + at - e->rows[w->kind].first);
	}
	return error ? error : block_flush_full(w->block);
}

static int put_functions(struct exporter *e, struct worker *w, int64_t from)
{
	size_t move = 0, to = (size_t)from + JOB_ROWS;
	int error = 0;
	if (to > e->chrome.functions.count)
		to = e->chrome.functions.count;
	for (size_t i = (size_t)from; i < to && !error; i++) {
		uint8_t lane = nesting_lane(&e->chrome.nesting, NESTING_FUNCTIONS, (int64_t)i, &move);
		if (lane == NESTING_ASYNC)
			w->functions_left_out++;
		else
			functions_put(&e->chrome, &w->block->text, i, lane, e->index_at[KIND_FUNCTIONS] + (int64_t)i);
		error = block_flush_full(w->block);
	}
	return error;
}

static const char *query_of(const struct exporter *e, unsigned kind)
{
	return kind == KIND_RANGES && e->bare_ranges ? host_bare_range_query : kinds[kind].query;
}

static int run_job(void *user, unsigned worker, struct block *block)
{
	struct exporter *e = user;
	struct worker *w = &e->workers[worker];
	unsigned kind = 0;
	while (block->job >= e->jobs_at[kind + 1])
		kind++;
	w->export = e;
	w->block = block;
	w->kind = kind;
	int64_t from = e->rows[kind].first + (int64_t)(block->job - e->jobs_at[kind]) * JOB_ROWS;
	host_events_begin(&w->host, from);
	int error = kind == KIND_FUNCTIONS
			    ? put_functions(e, w, from)
			    : scan_rows(&w->reader, query_of(e, kind), from, from + JOB_ROWS - 1, put_row, w);
	if (!error)
		error = block_flush(block);
	for (size_t i = 0; i < w->host.candidate_count && !error; i++) {
		const struct candidate *c = &w->host.candidates[i];
		error = flows_put(&e->flows, c->forward_thread, c->sequence, c->backward, c->is_node, c->end);
	}
	return error;
}

static void put_step(const struct exporter *e, struct buffer *b, int64_t number, uint32_t thread, int64_t start,
		     int64_t duration, int64_t index)
{
	event_begin(b, 'X', "user_annotation");
	BUFFER_PUT(b, "ProfilerStep#");
	buffer_put_int(b, number);
	event_place(&e->chrome, b, chrome_track(thread, 0), start);
	BUFFER_PUT(b, ",\"dur\":");
	buffer_put_micros(b, duration);
	BUFFER_PUT(b, ",\"args\":{\"Ev Idx\":");
	buffer_put_int(b, index);
	BUFFER_PUT(b, "}}");
}

/* torch_tb_profiler reckons with the times of a step that it does not find: one around all that was recorded. */
static void put_window(const struct exporter *e, struct buffer *b, int64_t *ret_count)
{
	const struct reader *r = e->chrome.reader;
	int64_t start = figure_time(reader_meta_int(r, "record_start", 0)),
		end = figure_time(reader_meta_int(r, "record_end", 0));
	if (e->part.timed) {
		start = e->part.spans[0].start;
		end = e->part.spans[e->part.count - 1].end;
	}
	if (end > start)
		put_step(e, b, 0, (uint32_t)reader_meta_int(r, "agent_pid", reader_meta_int(r, "pid", 0)), start,
			 end - start, (*ret_count)++);
}

/* ProfilerStep#N around each step, on the thread that stepped. */
static int put_steps(struct exporter *e, struct block *block, int64_t *ret_count)
{
	struct buffer *b = &block->text;
	sqlite3_stmt *row;
	int error = 0, result = SQLITE_ERROR;
	/* The order and the rule of nesting.c: a step that overlaps the one before has no track. */
	if (sqlite3_prepare_v2(
		    e->chrome.reader->db,
		    "SELECT thread, start, duration, number FROM steps WHERE source IS NOT 5 ORDER BY thread, "
		    "start, duration DESC",
		    -1, &row, NULL) != SQLITE_OK)
		return -EIO;
	_Static_assert(STEP_SOURCE_DURATION == 5, "as the statement has it");
	int64_t last_thread = -1, last_end = 0;
	while (!error && (result = sqlite3_step(row)) == SQLITE_ROW) {
		int64_t thread = sqlite3_column_int64(row, 0), start = figure_time(sqlite3_column_int64(row, 1)),
			duration = figure_length(sqlite3_column_int64(row, 2));
		if (thread == last_thread && start < last_end)
			continue;
		last_thread = thread;
		last_end = start + duration;
		if (!slice_time(&e->part, start, duration))
			continue;
		put_step(e, b, sqlite3_column_int64(row, 3), (uint32_t)thread, start, duration, (*ret_count)++);
		error = block_flush_full(block);
	}
	sqlite3_finalize(row);
	if (!*ret_count && e->chrome.shape == CHROME_TENSORBOARD)
		put_window(e, b, ret_count);
	return error ? error : result == SQLITE_DONE ? 0 : -EIO;
}

static void put_flow_end(const struct exporter *e, struct buffer *b, char phase, uint64_t id, struct flow_end end)
{
	event_begin(b, phase, "fwdbwd");
	BUFFER_PUT(b, "fwdbwd");
	event_place(&e->chrome, b, end.track, end.start);
	event_flow_end(b, phase, id);
}

static int put_flows(struct exporter *e, struct block *block)
{
	struct buffer *b = &block->text;
	uint64_t id = chrome_flow_id(&e->chrome, 0);
	size_t at = 0;
	int error = 0;
	for (const struct flow *flow; !error && (flow = flows_next(&e->flows, &at));) {
		id++;
		put_flow_end(e, b, 's', id, flow->forward);
		put_flow_end(e, b, 'f', id, flow->backward);
		error = block_flush_full(block);
	}
	return error;
}

static int open_workers(struct exporter *e, unsigned count)
{
	e->workers = calloc(count, sizeof *e->workers);
	if (!e->workers)
		return -ENOMEM;
	for (; e->worker_count < count; e->worker_count++) {
		struct worker *w = &e->workers[e->worker_count];
		int error = reader_clone(&w->reader, e->chrome.reader);
		if (error)
			return error;
		error = devices_register(&e->chrome.devices, &w->reader);
		if (error) {
			reader_close(&w->reader);
			return error;
		}
		error = host_events_init(&w->host, &w->reader, JOB_ROWS);
		if (error) {
			reader_close(&w->reader);
			return error;
		}
	}
	return 0;
}

static void close_workers(struct exporter *e)
{
	for (unsigned i = 0; i < e->worker_count; i++) {
		struct worker *w = &e->workers[i];
		sqlite3_finalize(w->find_operator);
		host_events_deinit(&w->host);
		reader_close(&w->reader);
	}
	free(e->workers);
}

static int find_tracks(struct exporter *e)
{
	struct reader readers[WORKERS_MAX];
	unsigned count = 0;
	/* The workers do not use their connections yet, so they are used here. */
	for (; count < e->worker_count; count++)
		readers[count] = e->workers[count].reader;
	struct chrome *c = &e->chrome;
	/* torch_tb_profiler would take projections for more steps and more operators of the host. */
	int error = projections_find(&c->projections, c->reader, c->schema, c->shape != CHROME_TENSORBOARD);
	if (!error && c->shape != CHROME_CRITICAL_PATH)
		error = functions_find(&c->functions, c->reader);
	/* Nor do torch_tb_profiler's calls of Python have one that no function is. */
	if (!error && c->shape == CHROME_PLAIN)
		error = functions_add_collections(&c->functions, c->reader);
	const struct nesting_options options = {
		.schema = c->schema,
		.functions = {c->functions.slices, c->functions.count},
		.projections = {c->projections.slices, c->projections.count},
	};
	return error ? error : nesting_find(&c->nesting, readers, count, &options);
}

/* The devices that have tracks; and a number for the process that none of them has: a device is a process of its own in
 * a trace, and in a container a job's pid may be as small as theirs. */
static int number_processes(struct exporter *e)
{
	struct chrome *c = &e->chrome;
	int error = 0;
	for (size_t i = 0; i < c->nesting.track_count && !error; i++) {
		uint64_t track = c->nesting.tracks[i].track;
		if (!nesting_is_thread(track) && !(track & NESTING_OWN))
			error = devices_use(&c->devices, nesting_device(track));
	}
	for (size_t i = 0; i < c->devices.count; i++)
		if (c->devices.all[i].used && chrome_device_process(c, c->devices.all[i].id) == c->pid) {
			c->pid += CHROME_LANE_STRIDE;
			break;
		}
	return error;
}

static int put_projections(struct exporter *e, struct block *block)
{
	size_t move = 0;
	int error = 0;
	for (size_t i = 0; i < e->chrome.projections.count && !error; i++) {
		const struct nesting_slice *at = &e->chrome.projections.slices[i];
		if (slice_device(&e->part, nesting_device(at->track)) &&
		    slice_time(&e->part, at->start, at->end - at->start))
			gpu_put_projection(&e->chrome, &block->text, i, &move);
		error = block_flush_full(block);
	}
	return error;
}

/* Before the base there may be something: readers drop negative times. */
static void find_origin(struct exporter *e)
{
	int64_t mark = reader_count(e->chrome.reader, "SELECT min(time) FROM marks", 0),
		step = reader_count(e->chrome.reader, "SELECT min(start) FROM steps", 0),
		sample = reader_count(e->chrome.reader, "SELECT min(time) FROM samples", 0);
	e->chrome.origin = e->chrome.nesting.earliest < 0 ? e->chrome.nesting.earliest : 0;
	if (mark < e->chrome.origin)
		e->chrome.origin = figure_time(mark);
	if (step < e->chrome.origin)
		e->chrome.origin = figure_time(step);
	if (sample < e->chrome.origin)
		e->chrome.origin = figure_time(sample);
}

static int prepare(struct exporter *e, unsigned threads)
{
	/* It needs most memory, and gives it back. */
	int error = e->chrome.shape == CHROME_PLAIN
			    ? tracks_find(&e->tracks, e->chrome.reader, e->chrome.schema, &e->part)
			    : 0;
	e->chrome.verdict = e->tracks.verdict;
	if (!error)
		error = devices_load(&e->chrome.devices, e->chrome.reader, e->chrome.schema);
	if (!error)
		error = open_workers(e, threads);
	if (!error)
		error = names_load(&e->chrome.names, e->chrome.reader);
	if (!error)
		error = collectives_find(&e->chrome.collectives, e->chrome.reader);
	if (!error)
		error = find_tracks(e);
	if (!error)
		error = number_processes(e);
	if (!error)
		error = chrome_threads(&e->chrome);
	if (!error)
		find_origin(e);
	e->bare_ranges =
		reader_count(e->chrome.reader, "SELECT count(inputs) FROM (SELECT inputs FROM ranges LIMIT 1)", -1) < 0;
	return error;
}

struct exporter *exporter_new(struct reader *r, enum chrome_shape shape, size_t index)
{
	struct exporter *e = calloc(1, sizeof *e);
	if (!e)
		return NULL;
	e->chrome.reader = r;
	e->chrome.index = index;
	e->chrome.part = &e->part;
	e->chrome.pid = reader_meta_int(r, "pid", 0);
	e->chrome.schema = reader_meta_int(r, "schema", 0);
	e->chrome.shape = shape;
	return e;
}

int exporter_prepare(struct exporter *e, const struct export_options *options, unsigned threads, char *why,
		     size_t why_bytes)
{
	int error = slice_find(&e->part, e->chrome.reader, options, why, why_bytes);
	/* What is not there has its sentence. */
	return error ? error : prepare(e, threads);
}

struct chrome *exporter_chrome(struct exporter *e)
{
	return &e->chrome;
}

int exporter_put(struct exporter *e, struct stream *stream)
{
	struct block *head = stream_head(stream);
	int64_t index = 0;
	chrome_put_tracks(&e->chrome, &head->text);
	int error = tracks_put(&e->tracks, &e->chrome, head);
	if (!error)
		error = put_steps(e, head, &index);
	if (!error)
		error = put_projections(e, head);
	if (!error && e->chrome.shape == CHROME_PLAIN)
		error = samples_put(&e->chrome, head, &e->samples_left_out);
	int used = e->chrome.schema < 2 ? KINDS_OF_1 : e->chrome.schema < 4 ? KINDS_OF_3 : KINDS;
	for (int kind = 0; kind < used && !error; kind++) {
		if (kind == KIND_FUNCTIONS)
			e->rows[kind] = (struct nesting_rows){.last = (int64_t)e->chrome.functions.count - 1};
		else
			error = nesting_rows(e->chrome.reader, kinds[kind].table, &e->rows[kind]);
		int64_t span = e->rows[kind].last - e->rows[kind].first + 1;
		e->jobs_at[kind + 1] = e->jobs_at[kind] + (uint64_t)(span + JOB_ROWS - 1) / JOB_ROWS;
		e->index_at[kind] = index;
		index += span;
	}
	if (!error)
		error = stream_jobs(stream, e->jobs_at[used], run_job, e);
	if (!error)
		error = put_flows(e, head);
	chrome_put_warnings(&e->chrome, &head->text);
	return error;
}

struct exporter_counts exporter_counts(const struct exporter *e)
{
	struct exporter_counts counts = {.flows_left_out = e->flows.left_out,
					 .projections_left_out = e->chrome.projections.left_out,
					 .functions_left_out = e->chrome.functions.left_out,
					 .samples_left_out = e->samples_left_out};
	for (unsigned i = 0; i < e->worker_count; i++) {
		counts.timeless += e->workers[i].timeless;
		counts.flows_left_out += e->workers[i].flows_left_out;
		counts.functions_left_out += e->workers[i].functions_left_out;
	}
	return counts;
}

void exporter_free(struct exporter *e)
{
	if (!e)
		return;
	close_workers(e);
	flows_deinit(&e->flows);
	nesting_deinit(&e->chrome.nesting);
	projections_deinit(&e->chrome.projections);
	collectives_deinit(&e->chrome.collectives);
	functions_deinit(&e->chrome.functions);
	devices_deinit(&e->chrome.devices);
	names_deinit(&e->chrome.names);
	tracks_deinit(&e->tracks);
	slice_deinit(&e->part);
	free(e->chrome.threads);
	free(e);
}
