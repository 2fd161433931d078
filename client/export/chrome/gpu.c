/* gpu.c - see gpu.h. Called by the threads that format jobs; what is shared is read-only. */
#include "gpu.h"

#include "event.h"
#include "client/ui/figure.h"

#include "proto/events.h"

#include <sqlite3.h>

/* CUPTI's numbers, as its documentation gives them. */
enum { DOMAIN_DRIVER = 1 };
enum { SYNC_EVENT = 1, SYNC_STREAM_WAIT = 2, SYNC_STREAM = 3, SYNC_CONTEXT = 4 };
#define NO_STREAM UINT32_MAX

/* Kineto gives waits for all streams the track -1, and the profiler's own work the process -1: Perfetto takes both for
 * 0, where the first stream of the first device may be. So they are tracks behind all streams, and behind all threads. */
#define ALL_STREAMS (CHROME_LANE_STRIDE - 1)
#define OWN_TRACK (CHROME_LANE_STRIDE - 1)

int64_t gpu_track(uint64_t track, unsigned lane)
{
	uint32_t stream = (uint32_t)track;
	if (track & NESTING_OWN)
		return chrome_track(OWN_TRACK, lane);
	if (!(track & NESTING_WAITS))
		return chrome_track(stream, lane);
	return chrome_track(stream == NO_STREAM ? ALL_STREAMS : stream, lane + NESTING_LANES);
}

int64_t gpu_process(const struct chrome *c, uint64_t track)
{
	return track & NESTING_OWN ? c->pid : chrome_device_process(c, nesting_device(track));
}

static int64_t length_of(sqlite3_value *value)
{
	return figure_length(sqlite3_value_int64(value));
}

bool gpu_operation(const struct gpu_row *r, struct gpu_slice *ret_slice, enum nesting_table table, const char *category)
{
	if (!gpu_has(r, GPU_START)) {
		++*r->timeless;
		return false;
	}
	*ret_slice = (struct gpu_slice){
		.table = table,
		.category = category,
		.track = nesting_device_track(gpu_number(r, GPU_DEVICE), gpu_number(r, GPU_STREAM)),
		.start = figure_time(gpu_int(r, GPU_START)),
		.duration = length_of(r->values[GPU_DURATION]),
	};
	bool called = gpu_has(r, GPU_API_START);
	return slice_operation(r->chrome->part, gpu_number(r, GPU_DEVICE), ret_slice->start, ret_slice->duration,
			       called ? figure_time(gpu_int(r, GPU_API_START)) : 0,
			       called ? length_of(r->values[GPU_API_DURATION]) : -1);
}

void gpu_begin(const struct gpu_row *r, const struct gpu_slice *s)
{
	event_begin(r->buffer, r->lane == NESTING_ASYNC ? 'b' : 'X', s->category);
}

/* Kernels and copies have no ids. */
static int64_t pair_id(const struct gpu_row *r, const struct gpu_slice *s)
{
	return ((int64_t)s->table << 32) + gpu_int(r, GPU_ROW);
}

static void place(const struct gpu_row *r, const struct gpu_slice *s, int64_t time)
{
	unsigned lane = r->lane == NESTING_ASYNC ? 0 : r->lane;
	event_place_at(r->chrome, r->buffer, gpu_process(r->chrome, s->track), gpu_track(s->track, lane), time);
	if (r->lane == NESTING_ASYNC)
		event_pair_id(r->buffer, pair_id(r, s));
}

void gpu_place(const struct gpu_row *r, const struct gpu_slice *s)
{
	struct buffer *b = r->buffer;
	place(r, s, s->start);
	if (r->lane != NESTING_ASYNC) {
		BUFFER_PUT(b, ",\"dur\":");
		buffer_put_micros(b, s->duration);
	}
	BUFFER_PUT(b, ",\"args\":{");
}

/* How deep ranges in ranges are followed. Only a broken file has deeper ones. */
#define DEPTH_MAX 1000

/* The operator that a range, or operator, lies in or is; 0 = none. */
static int64_t operator_of(const struct chrome *c, int64_t id)
{
	for (int depth = 0; depth < DEPTH_MAX; depth++) {
		const struct projection_range *range = projections_range(&c->projections, id);
		/* torch_tb_profiler recognizes a kernel of NCCL by its range. */
		if (!range || (c->shape == CHROME_TENSORBOARD && names_begins(&c->names, range->name, "nccl:")))
			return id;
		id = range->parent;
	}
	return 0;
}

const struct collective *gpu_collective(const struct gpu_row *r)
{
	const struct chrome *c = r->chrome;
	int64_t id = gpu_int(r, GPU_RANGE);
	for (int depth = 0; c->collectives.count && depth < DEPTH_MAX; depth++) {
		const struct projection_range *range = projections_range(&c->projections, id);
		if (!range)
			return collectives_of(&c->collectives, id);
		id = range->parent;
	}
	return NULL;
}

/* Id of the operator in a row; 0 = none. */
static int64_t operator_id(const struct gpu_row *r, int64_t row)
{
	if (!row || (!*r->find_operator && sqlite3_prepare_v2(r->reader->db, "SELECT id FROM operators WHERE rowid = ?",
							      -1, r->find_operator, NULL) != SQLITE_OK))
		return 0;
	sqlite3_bind_int64(*r->find_operator, 1, row);
	int64_t id = sqlite3_step(*r->find_operator) == SQLITE_ROW ? sqlite3_column_int64(*r->find_operator, 0) : 0;
	sqlite3_reset(*r->find_operator);
	return id;
}

/* Id of the operator that launched, or called, as Kineto has it, with a comma behind. torch_tb_profiler knows the lack
 * of one as 0. */
static void put_external(const struct gpu_row *r, int64_t id)
{
	if (!id && r->chrome->shape != CHROME_TENSORBOARD)
		return;
	BUFFER_PUT(r->buffer, "\"External id\":");
	buffer_put_int(r->buffer, id);
	BUFFER_PUT(r->buffer, ",");
}

void gpu_arguments(const struct gpu_row *r)
{
	struct buffer *b = r->buffer;
	put_external(r, operator_of(r->chrome, gpu_int(r, GPU_RANGE)));
	BUFFER_PUT(b, "\"device\":");
	buffer_put_int(b, gpu_number(r, GPU_DEVICE));
	EVENT_PUT_INT(b, "context", gpu_number(r, GPU_CONTEXT));
	EVENT_PUT_INT(b, "stream", gpu_number(r, GPU_STREAM));
	EVENT_PUT_INT(b, "correlation", gpu_number(r, GPU_CORRELATION));
	if (gpu_int(r, GPU_GRAPH))
		EVENT_PUT_INT(b, "graph id", gpu_int(r, GPU_GRAPH));
	if (gpu_int(r, GPU_GRAPH_NODE)) {
		BUFFER_PUT(b, ",\"graph node id\":");
		buffer_put_uint(b, (uint64_t)gpu_int(r, GPU_GRAPH_NODE));
	}
}

static void put_flags(struct buffer *b, int64_t flags)
{
	if (flags & EVENT_FLAG_CLIPPED)
		BUFFER_PUT(b, ",\"Clipped\":true");
	if (flags & EVENT_FLAG_DOUBTFUL)
		BUFFER_PUT(b, ",\"Doubtful\":true");
	if (flags & EVENT_FLAG_UNFINISHED)
		BUFFER_PUT(b, ",\"Unfinished\":true");
}

void gpu_end(const struct gpu_row *r, const struct gpu_slice *s, gpu_put put_name)
{
	struct buffer *b = r->buffer;
	put_flags(b, gpu_int(r, GPU_FLAGS));
	BUFFER_PUT(b, "}}");
	if (r->lane == NESTING_ASYNC) {
		event_begin(b, 'e', s->category);
		put_name(r);
		place(r, s, s->start + s->duration);
		BUFFER_PUT(b, "}");
	}
}

/* Viewers look a flow's ends up by their times: an operation that seems to begin before its call, for the clocks'
 * error, and a slice of no length, cannot be ends. A launch of one operation has its correlation id as the flow's, as
 * Kineto's have; of several, which CUDA graphs are, each has a flow of its own: an id stands for one pair. */
void gpu_flow(const struct gpu_row *r, const struct gpu_slice *s)
{
	if (!gpu_has(r, GPU_API))
		return;
	size_t at = 0;
	uint8_t lane = nesting_lane(&r->chrome->nesting, NESTING_API_CALLS, gpu_int(r, GPU_API), &at);
	int64_t start = figure_time(gpu_int(r, GPU_API_START));
	/* Its call is not in the trace. */
	if (!slice_time(r->chrome->part, start, length_of(r->values[GPU_API_DURATION])))
		return;
	if (r->lane == NESTING_ASYNC || lane == NESTING_ASYNC || s->start < start || s->duration == 0 ||
	    length_of(r->values[GPU_API_DURATION]) == 0) {
		++*r->flows_left_out;
		return;
	}
	struct buffer *b = r->buffer;
	uint64_t id = gpu_int(r, GPU_OPERATIONS) == 1 ? gpu_number(r, GPU_CORRELATION) : (uint64_t)pair_id(r, s);
	id = chrome_flow_id(r->chrome, id);
	event_begin(b, 's', "ac2g");
	BUFFER_PUT(b, "ac2g");
	event_place(r->chrome, b, chrome_track(gpu_number(r, GPU_API_THREAD), lane), start);
	event_flow_end(b, 's', id);
	event_begin(b, 'f', "ac2g");
	BUFFER_PUT(b, "ac2g");
	place(r, s, s->start);
	event_flow_end(b, 'f', id);
}

/* --- API calls --- */

enum { API_NAME = GPU_DURATION + 1, API_THREAD, API_DOMAIN, API_CBID, API_CORRELATION, API_RESULT, API_RANGE, API_OWN };
const char gpu_api_call_query[] =
	"SELECT profd_row(a.rowid, a.flags, a.start, a.duration, a.name, a.thread, a.domain, a.cbid, a.correlation, "
	"a.result, CASE WHEN l.api = a.rowid THEN l.range END, l.api = a.rowid) FROM api_calls a LEFT "
	"JOIN "
	"launches l ON l.correlation = a.correlation "
	"WHERE a.rowid BETWEEN ? AND ?";

/* A call of the runtime and the driver's calls in it have one id, and readers join all calls of an id with all that it launched
 * or waited for. It is written at the call that launched; where none did, at the outer one. */
static bool has_own_id(const struct gpu_row *r)
{
	if (gpu_has(r, API_OWN))
		return gpu_int(r, API_OWN) != 0;
	return gpu_int(r, API_DOMAIN) != DOMAIN_DRIVER ||
	       !devices_runtime_call(&r->chrome->devices, gpu_number(r, API_CORRELATION));
}

void gpu_put_api_call(const struct gpu_row *r)
{
	const struct chrome *c = r->chrome;
	struct buffer *b = r->buffer;
	bool paired = r->lane == NESTING_ASYNC;
	const char *category = c->shape == CHROME_TENSORBOARD		 ? "Runtime"
			       : gpu_int(r, API_DOMAIN) == DOMAIN_DRIVER ? "cuda_driver"
									 : "cuda_runtime";
	int64_t start = figure_time(gpu_int(r, GPU_START)), duration = length_of(r->values[GPU_DURATION]);
	int64_t id = ((int64_t)NESTING_API_CALLS << 32) + gpu_int(r, GPU_ROW);
	uint32_t thread = gpu_number(r, API_THREAD);
	if (!slice_time(c->part, start, duration))
		return;
	event_begin(b, paired ? 'b' : 'X', category);
	names_put(&c->names, b, gpu_int(r, API_NAME));
	event_place(c, b, chrome_track(thread, paired ? 0 : r->lane), start);
	if (paired) {
		event_pair_id(b, id);
	} else {
		BUFFER_PUT(b, ",\"dur\":");
		buffer_put_micros(b, duration);
	}
	BUFFER_PUT(b, ",\"args\":{");
	/* The table of launches has only calls that launched something. */
	put_external(r, gpu_has(r, API_RANGE) ? operator_of(c, gpu_int(r, API_RANGE))
					      : operator_id(r, nesting_operator(&c->nesting, gpu_int(r, GPU_ROW))));
	BUFFER_PUT(b, "\"cbid\":");
	buffer_put_int(b, gpu_int(r, API_CBID));
	if (has_own_id(r))
		EVENT_PUT_INT(b, "correlation", gpu_number(r, API_CORRELATION));
	if (gpu_int(r, API_RESULT))
		EVENT_PUT_INT(b, "Result", gpu_int(r, API_RESULT));
	put_flags(b, gpu_int(r, GPU_FLAGS));
	BUFFER_PUT(b, "}}");
	if (paired) {
		event_begin(b, 'e', category);
		names_put(&c->names, b, gpu_int(r, API_NAME));
		event_place(c, b, chrome_track(thread, 0), start + duration);
		event_pair_id(b, id);
		BUFFER_PUT(b, "}");
	}
}

/* --- waits --- */

enum { SYNC_STREAM_ID = GPU_DURATION + 1, SYNC_CONTEXT_ID, SYNC_CORRELATION, SYNC_KIND, SYNC_EVENT_ID, SYNC_RESULT };
const char gpu_sync_query[] = "SELECT profd_row(rowid, flags, start, duration, stream, context, correlation, kind, "
			      "event, result) FROM syncs WHERE rowid BETWEEN ? AND ?";

static const char *sync_kind(int64_t kind)
{
	switch (kind) {
	case SYNC_EVENT:
		return "Event Sync";
	case SYNC_STREAM_WAIT:
		return "Stream Wait Event";
	case SYNC_STREAM:
		return "Stream Sync";
	case SYNC_CONTEXT:
		return "Context Sync";
	default:
		return "Unknown Sync";
	}
}

static void put_sync_name(const struct gpu_row *r)
{
	const char *kind = sync_kind(gpu_int(r, SYNC_KIND));
	buffer_put(r->buffer, kind, strlen(kind));
}

/* 0xffffffff stands for none: -1, as Kineto writes it. */
static int64_t stream_number(uint32_t stream)
{
	return stream == NO_STREAM ? -1 : (int64_t)stream;
}

void gpu_put_sync(const struct gpu_row *r)
{
	struct buffer *b = r->buffer;
	uint32_t context = gpu_number(r, SYNC_CONTEXT_ID), stream = gpu_number(r, SYNC_STREAM_ID);
	uint32_t device = devices_of_context(&r->chrome->devices, context);
	int64_t kind = gpu_int(r, SYNC_KIND);
	if (!gpu_has(r, GPU_START)) {
		++*r->timeless;
		return;
	}
	const struct gpu_slice s = {
		.table = NESTING_SYNCS,
		.category = "cuda_sync",
		.track = nesting_device_track(device, stream) | NESTING_WAITS,
		.start = figure_time(gpu_int(r, GPU_START)),
		.duration = length_of(r->values[GPU_DURATION]),
	};
	if (!slice_device(r->chrome->part, device) || !slice_time(r->chrome->part, s.start, s.duration))
		return;
	gpu_begin(r, &s);
	put_sync_name(r);
	gpu_place(r, &s);
	BUFFER_PUT(b, "\"cuda_sync_kind\":");
	buffer_put_string(b, sync_kind(kind));
	if (kind == SYNC_EVENT || kind == SYNC_STREAM_WAIT) {
		uint32_t event = gpu_number(r, SYNC_EVENT_ID);
		const struct device_event *recorded =
			devices_event(&r->chrome->devices, context, event, gpu_number(r, SYNC_CORRELATION));
		EVENT_PUT_INT(b, "wait_on_stream", recorded ? stream_number(recorded->stream) : -1);
		EVENT_PUT_INT(b, "wait_on_cuda_event_record_corr_id", recorded ? (int64_t)recorded->correlation : -1);
		EVENT_PUT_INT(b, "wait_on_cuda_event_id", event);
	}
	/* HolisticTraceAnalysis takes whatever has a stream for work of that stream: a wait would count as computing.
	 * Its critical path alone knows better, and needs the stream. */
	if (r->chrome->shape == CHROME_CRITICAL_PATH) {
		EVENT_PUT_INT(b, "stream", stream_number(stream));
	} else {
		BUFFER_PUT(b, ",\"stream\":-1");
		if (kind == SYNC_STREAM)
			EVENT_PUT_INT(b, "wait_on_stream", stream_number(stream));
		if (kind == SYNC_STREAM_WAIT)
			EVENT_PUT_INT(b, "waiting_stream", stream_number(stream));
	}
	EVENT_PUT_INT(b, "correlation", gpu_number(r, SYNC_CORRELATION));
	EVENT_PUT_INT(b, "device", device);
	EVENT_PUT_INT(b, "context", context);
	if (gpu_int(r, SYNC_RESULT))
		EVENT_PUT_INT(b, "Result", gpu_int(r, SYNC_RESULT));
	gpu_end(r, &s, put_sync_name);
}

/* --- the profiler's own work --- */

enum { OVERHEAD_KIND = GPU_DURATION + 1, OVERHEAD_THREAD };
const char gpu_overhead_query[] =
	"SELECT profd_row(rowid, flags, start, duration, kind, thread) FROM overheads WHERE rowid BETWEEN ? AND ?";

static void put_overhead_name(const struct gpu_row *r)
{
	/* CUpti_ActivityOverheadKind: the first number as it is, the others in the upper half. */
	static const char *const names[] = {
		"Unknown",
		"Buffer Flush",
		"Instrumentation",
		"Resource",
		"Runtime Triggered Module Loading",
		"Lazy Function Loading",
		"Command Buffer Full",
		"Activity Buffer Request",
		"UVM Activity Init",
	};
	int64_t kind = gpu_int(r, OVERHEAD_KIND), upper = kind >> 16;
	const char *name = kind == 1 ? "Driver Compiler" : names[0];
	if ((kind & 0xffff) == 0 && upper > 0 && upper < (int64_t)(sizeof names / sizeof *names))
		name = names[upper];
	buffer_put(r->buffer, name, strlen(name));
}

void gpu_put_overhead(const struct gpu_row *r)
{
	const struct gpu_slice s = {
		.table = NESTING_OVERHEADS,
		.category = "overhead",
		.track = NESTING_OWN,
		.start = figure_time(gpu_int(r, GPU_START)),
		.duration = length_of(r->values[GPU_DURATION]),
	};
	if (!slice_time(r->chrome->part, s.start, s.duration))
		return;
	gpu_begin(r, &s);
	put_overhead_name(r);
	gpu_place(r, &s);
	BUFFER_PUT(r->buffer, "\"thread\":");
	buffer_put_int(r->buffer, gpu_number(r, OVERHEAD_THREAD));
	gpu_end(r, &s, put_overhead_name);
}

/* --- projections --- */

void gpu_put_projection(const struct chrome *c, struct buffer *b, size_t index, size_t *move)
{
	const struct nesting_slice *slice = &c->projections.slices[index];
	const struct projection *projection = &c->projections.all[index];
	uint8_t lane = nesting_lane(&c->nesting, NESTING_PROJECTIONS, (int64_t)index, move);
	bool paired = lane == NESTING_ASYNC;
	int64_t id = ((int64_t)NESTING_PROJECTIONS << 32) + (int64_t)index;
	for (int half = 0; half < (paired ? 2 : 1); half++) {
		event_begin(b, !paired ? 'X' : half ? 'e' : 'b', "gpu_user_annotation");
		if (projection->id) {
			names_put(&c->names, b, projection->name);
		} else {
			BUFFER_PUT(b, "ProfilerStep#");
			buffer_put_int(b, projection->name);
		}
		event_place_at(c, b, gpu_process(c, slice->track), gpu_track(slice->track, paired ? 0 : lane),
			       half ? slice->end : slice->start);
		if (paired) {
			event_pair_id(b, id);
		} else {
			BUFFER_PUT(b, ",\"dur\":");
			buffer_put_micros(b, slice->end - slice->start);
		}
		BUFFER_PUT(b, ",\"args\":{");
		if (projection->id) {
			BUFFER_PUT(b, "\"External id\":");
			buffer_put_int(b, projection->id);
			if (names_is_renamed(&c->names, projection->name)) {
				BUFFER_PUT(b, ",\"Name\":\"");
				names_put_original(&c->names, b, projection->name);
				BUFFER_PUT(b, "\"");
			}
		}
		BUFFER_PUT(b, "}}");
	}
}
