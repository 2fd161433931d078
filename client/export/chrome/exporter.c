/* exporter.c - writes one capture's events as Chrome trace events, in the shape that Kineto gives them: steps, ranges, marks,
 * operators, and the flows from forward to backward; gpu.h has what concerns devices, tracks.h the breakdown.
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
#include "inputs.h"
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
	KIND_OPERATORS,
	KINDS_OF_1, /* what a file of schema 1 has of them */
	KIND_API_CALLS = KINDS_OF_1,
	KIND_OVERHEADS,
	KIND_KERNELS,
	KIND_COPIES,
	KIND_SETS,
	KIND_GRAPHS,
	KIND_SYNCS,
	KINDS
};

struct exporter;

/* What the node says that an operator "autograd::engine::evaluate_function: <node>" runs: torch numbers the node only,
 * and Kineto's traces have its number at both. A row stands behind those that it holds, so the node's comes first. */
struct evaluated {
	int64_t id; /* of the operator around the node; 0 = a free place */
	int64_t sequence, forward;
};
#define EVALUATED 256

/* An operator that may be one end of a flow, until its job's turn comes. */
struct candidate {
	uint64_t sequence;
	uint32_t forward_thread;
	bool backward, is_node;
	struct flow_end end;
};

struct worker {
	struct reader reader;
	struct inputs inputs;
	const struct chrome_thread *thread; /* of the last operator */
	size_t moves_at[NESTING_TABLES];
	struct candidate *candidates; /* JOB_ROWS */
	size_t candidate_count;
	sqlite3_stmt *nodes, *find_operator;
	struct evaluated evaluated[EVALUATED]; /* of the last nodes, by `id` */
	bool looked_back;		       /* `evaluated` has those before the job, too */
	uint64_t timeless, flows_left_out;
	/* The job in hand */
	struct exporter *export;
	struct block *block;
	enum kind kind;
	int64_t from; /* first row */
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
	struct flows flows;
};

typedef int (*put_event)(struct exporter *e, struct worker *w, struct buffer *b, sqlite3_value **row, int64_t index);

static int put_range(struct exporter *e, struct worker *w, struct buffer *b, sqlite3_value **row, int64_t index);
static int put_mark(struct exporter *e, struct worker *w, struct buffer *b, sqlite3_value **row, int64_t index);
static int put_operator(struct exporter *e, struct worker *w, struct buffer *b, sqlite3_value **row, int64_t index);

/* Column 0 is the row's number. Those of the device side, which have `gpu`, have no "Ev Idx", as in Kineto's traces. */
static const struct {
	const char *table, *query;
	put_event put;
	gpu_put gpu;
	enum nesting_table nesting;
} kinds[KINDS] = {
	[KIND_RANGES] = {"ranges",
			 "SELECT profd_row(rowid, flags, start, duration, id, name, thread, source, domain, category, "
			 "color, payload_type, payload, end_thread) FROM ranges WHERE rowid BETWEEN ? AND ?",
			 .put = put_range},
	[KIND_MARKS] = {"marks",
			"SELECT profd_row(rowid, time, name, thread, source, domain, category, color, payload_type, "
			"payload) FROM marks WHERE rowid BETWEEN ? AND ?",
			.put = put_mark},
	[KIND_OPERATORS] = {"operators",
			    "SELECT profd_row(rowid, flags, start, duration, id, name, thread, inputs, sequence, "
			    "forward_thread, end_thread, scope, parent) FROM operators WHERE rowid BETWEEN ? AND ?",
			    .put = put_operator},
	[KIND_API_CALLS] = {"api_calls", gpu_api_call_query, .gpu = gpu_put_api_call, .nesting = NESTING_API_CALLS},
	[KIND_OVERHEADS] = {"overheads", gpu_overhead_query, .gpu = gpu_put_overhead, .nesting = NESTING_OVERHEADS},
	[KIND_KERNELS] = {"kernel_records", gpu_kernel_query, .gpu = gpu_put_kernel, .nesting = NESTING_KERNELS},
	[KIND_COPIES] = {"copy_records", gpu_copy_query, .gpu = gpu_put_copy, .nesting = NESTING_COPIES},
	[KIND_SETS] = {"set_records", gpu_set_query, .gpu = gpu_put_set, .nesting = NESTING_SETS},
	[KIND_GRAPHS] = {"graph_records", gpu_graph_query, .gpu = gpu_put_graph, .nesting = NESTING_GRAPHS},
	[KIND_SYNCS] = {"syncs", gpu_sync_query, .gpu = gpu_put_sync, .nesting = NESTING_SYNCS},
};

/* A named interval: a slice on a track, or a pair of asynchronous events that needs none. The arguments stand in
 * `args`, each behind a comma. */
struct named {
	const char *category;
	int64_t name, start, duration, id;
	uint32_t thread;
	uint8_t lane;
};

/* A slice up to its "External id". Further arguments follow, then put_slice_end. */
static void put_slice(const struct exporter *e, struct buffer *b, const struct named *s)
{
	event_begin(b, s->lane == NESTING_ASYNC ? 'b' : 'X', s->category);
	names_put(&e->chrome.names, b, s->name);
	if (s->lane == NESTING_ASYNC) {
		event_place(&e->chrome, b, chrome_track(s->thread, 0), s->start);
		event_pair_id(b, s->id);
	} else {
		event_place(&e->chrome, b, chrome_track(s->thread, s->lane), s->start);
		BUFFER_PUT(b, ",\"dur\":");
		buffer_put_micros(b, s->duration);
	}
	BUFFER_PUT(b, ",\"args\":{\"External id\":");
	buffer_put_int(b, s->id);
}

static void put_slice_end(const struct exporter *e, struct buffer *b, const struct named *s, int64_t flags,
			  int64_t end_thread, int64_t index)
{
	if (flags & EVENT_FLAG_CLIPPED)
		BUFFER_PUT(b, ",\"Clipped\":true");
	if (flags & EVENT_FLAG_DOUBTFUL)
		BUFFER_PUT(b, ",\"Doubtful\":true");
	if (end_thread) {
		BUFFER_PUT(b, ",\"End thread\":");
		buffer_put_int(b, end_thread);
	}
	BUFFER_PUT(b, ",\"Ev Idx\":");
	buffer_put_int(b, index);
	BUFFER_PUT(b, "}}");
	if (s->lane == NESTING_ASYNC) {
		event_begin(b, 'e', s->category);
		names_put(&e->chrome.names, b, s->name);
		event_place(&e->chrome, b, chrome_track(s->thread, 0), s->start + s->duration);
		event_pair_id(b, s->id);
		BUFFER_PUT(b, "}");
	}
}

static int64_t length_of(sqlite3_value *value)
{
	return figure_length(sqlite3_value_int64(value));
}

static int64_t sequence_of(sqlite3_value *value)
{
	return sqlite3_value_type(value) == SQLITE_NULL ? -1 : sqlite3_value_int64(value);
}

static void put_evaluated(struct worker *w, int64_t id, int64_t sequence, int64_t forward)
{
	w->evaluated[(uint64_t)id % EVALUATED] = (struct evaluated){.id = id, .sequence = sequence, .forward = forward};
}

/* The node that the operator `id` runs, where it is in the job or shortly before it; else NULL. */
static const struct evaluated *find_evaluated(struct worker *w, int64_t id)
{
	const struct evaluated *found = &w->evaluated[(uint64_t)id % EVALUATED];
	if (found->id == id || w->looked_back)
		return found->id == id ? found : NULL;
	w->looked_back = true;
	static const char sql[] = "SELECT parent, sequence, forward_thread FROM operators WHERE rowid BETWEEN ? AND ? "
				  "AND scope = 1 AND parent <> 0";
	if (!w->nodes && sqlite3_prepare_v2(w->reader.db, sql, -1, &w->nodes, NULL) != SQLITE_OK)
		return NULL;
	sqlite3_bind_int64(w->nodes, 1, w->from - INT64_C(2) * EVALUATED);
	sqlite3_bind_int64(w->nodes, 2, w->from - 1);
	while (sqlite3_step(w->nodes) == SQLITE_ROW) {
		int64_t around = sqlite3_column_int64(w->nodes, 0);
		/* Never over one of the job's own. */
		if (w->evaluated[(uint64_t)around % EVALUATED].id == 0 || around == id)
			put_evaluated(w, around, sequence_of(sqlite3_column_value(w->nodes, 1)),
				      sqlite3_column_int64(w->nodes, 2));
	}
	sqlite3_reset(w->nodes);
	return found->id == id ? found : NULL;
}

static int put_operator(struct exporter *e, struct worker *w, struct buffer *b, sqlite3_value **row, int64_t index)
{
	int64_t flags = sqlite3_value_int64(row[1]), inputs = sqlite3_value_int64(row[7]);
	int64_t sequence = sequence_of(row[8]), forward = sqlite3_value_int64(row[9]), parent;
	bool is_node = sqlite3_value_int64(row[11]) == 1; /* RecordScope::BACKWARD_FUNCTION */
	struct named s = {
		.category = "cpu_op",
		.start = figure_time(sqlite3_value_int64(row[2])),
		.duration = length_of(row[3]),
		.id = sqlite3_value_int64(row[4]),
		.name = sqlite3_value_int64(row[5]),
		.thread = (uint32_t)sqlite3_value_int64(row[6]),
		.lane = nesting_lane(&e->chrome.nesting, NESTING_OPERATORS, sqlite3_value_int64(row[0]),
				     &w->moves_at[NESTING_OPERATORS]),
	};
	int error = 0;
	if (is_node && (parent = sqlite3_value_int64(row[12])) != 0)
		put_evaluated(w, parent, sequence, forward);
	if (sequence < 0 && names_begins(&e->chrome.names, s.name, "autograd::engine::evaluate_function: ")) {
		const struct evaluated *node = find_evaluated(w, s.id);
		sequence = node ? node->sequence : -1;
		forward = node ? node->forward : 0;
	}
	bool numbered = sequence >= 0;
	if (!slice_time(&e->part, s.start, s.duration))
		return 0;
	put_slice(e, b, &s);
	if (numbered) {
		BUFFER_PUT(b, ",\"Sequence number\":");
		buffer_put_int(b, sequence);
		BUFFER_PUT(b, ",\"Fwd thread id\":");
		buffer_put_int(b, forward);
	}
	if (inputs)
		error = inputs_put(&w->inputs, &w->reader, b, inputs);
	put_slice_end(e, b, &s, flags, sqlite3_value_int64(row[10]), index);
	if (!numbered || s.lane == NESTING_ASYNC)
		return error;

	if (!w->thread || w->thread->thread != s.thread)
		w->thread = chrome_thread(&e->chrome, s.thread);
	uint32_t forward_thread = forward ? (uint32_t)forward : w->thread ? w->thread->torch_id : 0;
	if (forward_thread)
		w->candidates[w->candidate_count++] = (struct candidate){
			.sequence = (uint64_t)sequence,
			.forward_thread = forward_thread,
			.backward = forward != 0,
			.is_node = is_node,
			.end = {.start = s.start, .track = chrome_track(s.thread, s.lane)},
		};
	return error;
}

static void put_name_argument(const struct exporter *e, struct buffer *b, const char *key, int64_t id)
{
	if (!id)
		return;
	BUFFER_PUT(b, ",\"");
	buffer_put(b, key, strlen(key));
	BUFFER_PUT(b, "\":\"");
	names_put(&e->chrome.names, b, id);
	BUFFER_PUT(b, "\"");
}

/* nvtxPayloadType_t, as NVTX's header numbers it. */
enum { PAYLOAD_UINT64 = 1, PAYLOAD_INT64, PAYLOAD_DOUBLE, PAYLOAD_UINT32, PAYLOAD_INT32, PAYLOAD_FLOAT };

static void put_payload(struct buffer *b, int64_t type, uint64_t bits)
{
	double wide;
	float narrow;
	uint32_t low = (uint32_t)bits;
	BUFFER_PUT(b, ",\"payload\":");
	switch (type) {
	case PAYLOAD_UINT64:
		buffer_put_uint(b, bits);
		break;
	case PAYLOAD_INT64:
		buffer_put_int(b, (int64_t)bits);
		break;
	case PAYLOAD_DOUBLE:
		memcpy(&wide, &bits, sizeof wide);
		buffer_put_double(b, wide);
		break;
	case PAYLOAD_UINT32:
		buffer_put_uint(b, low);
		break;
	case PAYLOAD_INT32:
		buffer_put_int(b, (int32_t)low);
		break;
	case PAYLOAD_FLOAT:
		memcpy(&narrow, &low, sizeof narrow);
		buffer_put_double(b, (double)narrow);
		break;
	default: /* of a later NVTX: its bits */
		BUFFER_PUT(b, "\"0x");
		buffer_put_hex(b, bits, 1);
		BUFFER_PUT(b, "\"");
	}
}

/* What ranges and marks share; the columns follow one another from `first`: source, domain, category, color,
 * payload_type, payload. */
static void put_annotation(const struct exporter *e, struct buffer *b, sqlite3_value **row, int first)
{
	const char *source = range_source_word((unsigned)sqlite3_value_int(row[first]));
	uint32_t color = (uint32_t)sqlite3_value_int64(row[first + 3]);
	if (source) {
		BUFFER_PUT(b, ",\"source\":");
		buffer_put_string(b, source);
	}
	put_name_argument(e, b, "domain", sqlite3_value_int64(row[first + 1]));
	put_name_argument(e, b, "category", sqlite3_value_int64(row[first + 2]));
	if (color) {
		char text[40];
		int n = snprintf(text, sizeof text, ",\"color\":\"#%08" PRIX32 "\"", color);
		buffer_put(b, text, (size_t)n);
	}
	if (sqlite3_value_int64(row[first + 4]))
		put_payload(b, sqlite3_value_int64(row[first + 4]), (uint64_t)sqlite3_value_int64(row[first + 5]));
}

/* The job's own name, where the event has another. */
static void put_original(const struct exporter *e, struct buffer *b, int64_t name)
{
	if (!names_is_renamed(&e->chrome.names, name))
		return;
	BUFFER_PUT(b, ",\"Name\":\"");
	names_put_original(&e->chrome.names, b, name);
	BUFFER_PUT(b, "\"");
}

static int put_range(struct exporter *e, struct worker *w, struct buffer *b, sqlite3_value **row, int64_t index)
{
	struct named s = {
		.category = "user_annotation",
		.start = figure_time(sqlite3_value_int64(row[2])),
		.duration = length_of(row[3]),
		.id = sqlite3_value_int64(row[4]),
		.name = sqlite3_value_int64(row[5]),
		.thread = (uint32_t)sqlite3_value_int64(row[6]),
	};
	if (!slice_time(&e->part, s.start, s.duration))
		return 0;
	/* Start/end ranges may overlap in any way: they belong to no thread. */
	if (sqlite3_value_int64(row[7]) == RANGE_SOURCE_NVTX_START_END)
		s.lane = NESTING_ASYNC;
	else
		s.lane = nesting_lane(&e->chrome.nesting, NESTING_RANGES, sqlite3_value_int64(row[0]),
				      &w->moves_at[NESTING_RANGES]);
	put_slice(e, b, &s);
	put_original(e, b, s.name);
	put_annotation(e, b, row, 7);
	put_slice_end(e, b, &s, sqlite3_value_int64(row[1]), sqlite3_value_int64(row[13]), index);
	return 0;
}

static int put_mark(struct exporter *e, struct worker *w, struct buffer *b, sqlite3_value **row, int64_t index)
{
	(void)w;
	if (!slice_time(&e->part, figure_time(sqlite3_value_int64(row[1])), 0))
		return 0;
	event_begin(b, 'i', "user_annotation");
	names_put(&e->chrome.names, b, sqlite3_value_int64(row[2]));
	event_place(&e->chrome, b, chrome_track((uint32_t)sqlite3_value_int64(row[3]), 0),
		    figure_time(sqlite3_value_int64(row[1])));
	BUFFER_PUT(b, ",\"s\":\"t\",\"args\":{\"Ev Idx\":");
	buffer_put_int(b, index);
	put_original(e, b, sqlite3_value_int64(row[2]));
	put_annotation(e, b, row, 4);
	BUFFER_PUT(b, "}}");
	return 0;
}

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
		error = kinds[w->kind].put(e, w, &w->block->text, row,
					   e->index_at[w->kind] + at - e->rows[w->kind].first);
	}
	return error ? error : block_flush_full(w->block);
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
	w->from = e->rows[kind].first + (int64_t)(block->job - e->jobs_at[kind]) * JOB_ROWS;
	w->candidate_count = 0;
	w->looked_back = false;
	memset(w->evaluated, 0, sizeof w->evaluated);
	int error = scan_rows(&w->reader, kinds[kind].query, w->from, w->from + JOB_ROWS - 1, put_row, w);
	if (!error)
		error = block_flush(block);
	for (size_t i = 0; i < w->candidate_count && !error; i++) {
		const struct candidate *c = &w->candidates[i];
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
	if (sqlite3_prepare_v2(e->chrome.reader->db,
			       "SELECT thread, start, duration, number FROM steps WHERE number > 0 ORDER BY thread, "
			       "start, duration DESC",
			       -1, &row, NULL) != SQLITE_OK)
		return -EIO;
	int64_t last_thread = -1, last_end = 0;
	while (!error && (result = sqlite3_step(row)) == SQLITE_ROW) {
		int64_t thread = sqlite3_column_int64(row, 0), start = figure_time(sqlite3_column_int64(row, 1)),
			duration = length_of(sqlite3_column_value(row, 2));
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
		w->candidates = malloc(JOB_ROWS * sizeof *w->candidates);
		if (!w->candidates) {
			reader_close(&w->reader);
			return -ENOMEM;
		}
	}
	return 0;
}

static void close_workers(struct exporter *e)
{
	for (unsigned i = 0; i < e->worker_count; i++) {
		struct worker *w = &e->workers[i];
		sqlite3_finalize(w->nodes);
		sqlite3_finalize(w->find_operator);
		inputs_deinit(&w->inputs);
		free(w->candidates);
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
	const struct nesting_options options = {
		.schema = c->schema,
		.slices = c->projections.slices,
		.slice_count = c->projections.count,
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
		step = reader_count(e->chrome.reader, "SELECT min(start) FROM steps", 0);
	e->chrome.origin = e->chrome.nesting.earliest < 0 ? e->chrome.nesting.earliest : 0;
	if (mark < e->chrome.origin)
		e->chrome.origin = figure_time(mark);
	if (step < e->chrome.origin)
		e->chrome.origin = figure_time(step);
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
		error = find_tracks(e);
	if (!error)
		error = number_processes(e);
	if (!error)
		error = chrome_threads(&e->chrome);
	if (!error)
		find_origin(e);
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
	int used = e->chrome.schema < 2 ? KINDS_OF_1 : KINDS;
	for (int kind = 0; kind < used && !error; kind++) {
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
					 .projections_left_out = e->chrome.projections.left_out};
	for (unsigned i = 0; i < e->worker_count; i++) {
		counts.timeless += e->workers[i].timeless;
		counts.flows_left_out += e->workers[i].flows_left_out;
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
	devices_deinit(&e->chrome.devices);
	names_deinit(&e->chrome.names);
	tracks_deinit(&e->tracks);
	slice_deinit(&e->part);
	free(e->chrome.threads);
	free(e);
}
