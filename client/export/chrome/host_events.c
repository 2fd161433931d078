/* host_events.c - see host_events.h. The queries' column 0 is the row's number. */
#include "host_events.h"

#include "chrome_head.h"
#include "event.h"

#include "proto/events.h"
#include "client/ui/figure.h"
#include "client/export/slice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define RANGE_QUERY(inputs)                                                                                            \
	"SELECT profd_row(rowid, flags, start, duration, id, name, thread, source, domain, category, color, "          \
	"payload_type, payload, end_thread, " inputs ") FROM ranges WHERE rowid BETWEEN ? AND ?"
const char host_range_query[] = RANGE_QUERY("inputs"), host_bare_range_query[] = RANGE_QUERY("0");
const char host_mark_query[] =
	"SELECT profd_row(rowid, time, name, thread, source, domain, category, color, payload_type, "
	"payload) FROM marks WHERE rowid BETWEEN ? AND ?";
const char host_operator_query[] =
	"SELECT profd_row(rowid, flags, start, duration, id, name, thread, inputs, sequence, "
	"forward_thread, end_thread, scope, parent) FROM operators WHERE rowid BETWEEN ? AND ?";

const char host_memory_query[] =
	"SELECT profd_row(rowid, time, thread, iif(operation = 1, bytes, -bytes), address, device_type, device, total, "
	"reserved, known) FROM framework_allocations WHERE rowid BETWEEN ? AND ?";
_Static_assert(ALLOCATION_TAKEN == 1, "as the statement has it");

int host_events_init(struct host_events *h, struct reader *reader, size_t most)
{
	*h = (struct host_events){.reader = reader, .candidates = malloc(most * sizeof *h->candidates)};
	return h->candidates ? 0 : -ENOMEM;
}

void host_events_deinit(struct host_events *h)
{
	sqlite3_finalize(h->nodes);
	inputs_deinit(&h->inputs);
	free(h->candidates);
}

void host_events_begin(struct host_events *h, int64_t from)
{
	h->from = from;
	h->candidate_count = 0;
	h->looked_back = false;
	memset(h->evaluated, 0, sizeof h->evaluated);
}

/* A named interval: a slice on a track, or a pair of asynchronous events that needs none. The arguments stand in
 * `args`, each behind a comma. */
struct named {
	const char *category;
	int64_t name, start, duration, id;
	uint32_t thread;
	uint8_t lane;
};

/* A slice up to its "External id". Further arguments follow, then put_slice_end. */
static void put_slice(const struct chrome *c, struct buffer *b, const struct named *s)
{
	event_begin(b, s->lane == NESTING_ASYNC ? 'b' : 'X', s->category);
	names_put(&c->names, b, s->name);
	if (s->lane == NESTING_ASYNC) {
		event_place(c, b, chrome_track(s->thread, 0), s->start);
		event_pair_id(b, s->id);
	} else {
		event_place(c, b, chrome_track(s->thread, s->lane), s->start);
		BUFFER_PUT(b, ",\"dur\":");
		buffer_put_micros(b, s->duration);
	}
	BUFFER_PUT(b, ",\"args\":{\"External id\":");
	buffer_put_int(b, s->id);
}

static void put_slice_end(const struct chrome *c, struct buffer *b, const struct named *s, int64_t flags,
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
		names_put(&c->names, b, s->name);
		event_place(c, b, chrome_track(s->thread, 0), s->start + s->duration);
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

static void put_evaluated(struct host_events *h, int64_t id, int64_t sequence, int64_t forward)
{
	h->evaluated[(uint64_t)id % EVALUATED] = (struct evaluated){.id = id, .sequence = sequence, .forward = forward};
}

/* The node that the operator `id` runs, where it is in the job or shortly before it; else NULL. */
static const struct evaluated *find_evaluated(struct host_events *h, int64_t id)
{
	const struct evaluated *found = &h->evaluated[(uint64_t)id % EVALUATED];
	if (found->id == id || h->looked_back)
		return found->id == id ? found : NULL;
	h->looked_back = true;
	static const char sql[] = "SELECT parent, sequence, forward_thread FROM operators WHERE rowid BETWEEN ? AND ? "
				  "AND scope = 1 AND parent <> 0";
	if (!h->nodes && sqlite3_prepare_v2(h->reader->db, sql, -1, &h->nodes, NULL) != SQLITE_OK)
		return NULL;
	sqlite3_bind_int64(h->nodes, 1, h->from - INT64_C(2) * EVALUATED);
	sqlite3_bind_int64(h->nodes, 2, h->from - 1);
	while (sqlite3_step(h->nodes) == SQLITE_ROW) {
		int64_t around = sqlite3_column_int64(h->nodes, 0);
		/* Never over one of the job's own. */
		if (h->evaluated[(uint64_t)around % EVALUATED].id == 0 || around == id)
			put_evaluated(h, around, sequence_of(sqlite3_column_value(h->nodes, 1)),
				      sqlite3_column_int64(h->nodes, 2));
	}
	sqlite3_reset(h->nodes);
	return found->id == id ? found : NULL;
}

int host_put_memory(const struct chrome *c, struct host_events *h, struct buffer *b, sqlite3_value **row, int64_t index)
{
	int64_t time = figure_time(sqlite3_value_int64(row[1])), address = sqlite3_value_int64(row[4]);
	int64_t device = sqlite3_value_int64(row[6]), known = sqlite3_value_int64(row[9]);
	(void)h;
	if (!(known & ALLOCATION_KNOWS_BYTES) || !slice_time(c->part, time, 0))
		return 0;
	event_begin(b, 'i', "cpu_instant_event");
	BUFFER_PUT(b, "[memory]");
	event_place(c, b, chrome_track((uint32_t)sqlite3_value_int64(row[2]), 0), time);
	BUFFER_PUT(b, ",\"s\":\"t\",\"args\":{\"Ev Idx\":");
	buffer_put_int(b, index);
	EVENT_PUT_INT(b, "Bytes", sqlite3_value_int64(row[3]));
	if (address)
		EVENT_PUT_INT(b, "Addr", address);
	EVENT_PUT_INT(b, "Device Type", sqlite3_value_int64(row[5]));
	EVENT_PUT_INT(b, "Device Id", device == FRAMEWORK_DEVICE_ALONE ? -1 : device);
	if (known & ALLOCATION_KNOWS_TOTALS) {
		EVENT_PUT_INT(b, "Total Allocated", sqlite3_value_int64(row[7]));
		EVENT_PUT_INT(b, "Total Reserved", sqlite3_value_int64(row[8]));
	}
	BUFFER_PUT(b, "}}");
	return 0;
}

int host_put_operator(const struct chrome *c, struct host_events *h, struct buffer *b, sqlite3_value **row,
		      int64_t index)
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
		.lane = nesting_lane(&c->nesting, NESTING_OPERATORS, sqlite3_value_int64(row[0]), &h->operator_at),
	};
	int error = 0;
	if (is_node && (parent = sqlite3_value_int64(row[12])) != 0)
		put_evaluated(h, parent, sequence, forward);
	if (sequence < 0 && names_begins(&c->names, s.name, "autograd::engine::evaluate_function: ")) {
		const struct evaluated *node = find_evaluated(h, s.id);
		sequence = node ? node->sequence : -1;
		forward = node ? node->forward : 0;
	}
	bool numbered = sequence >= 0;
	if (!slice_time(c->part, s.start, s.duration))
		return 0;
	put_slice(c, b, &s);
	if (numbered) {
		BUFFER_PUT(b, ",\"Sequence number\":");
		buffer_put_int(b, sequence);
		BUFFER_PUT(b, ",\"Fwd thread id\":");
		buffer_put_int(b, forward);
	}
	if (c->collectives.count && names_begins(&c->names, s.name, "record_param_comms")) {
		const struct collective *collective = collectives_of(&c->collectives, s.id);
		if (collective)
			collective_put(collective, &c->names, b, false);
	}
	if (inputs)
		error = inputs_put(&h->inputs, h->reader, b, inputs);
	put_slice_end(c, b, &s, flags, sqlite3_value_int64(row[10]), index);
	if (!numbered || s.lane == NESTING_ASYNC)
		return error;

	if (!h->thread || h->thread->thread != s.thread)
		h->thread = chrome_thread(c, s.thread);
	uint32_t forward_thread = forward ? (uint32_t)forward : h->thread ? h->thread->torch_id : 0;
	if (forward_thread)
		h->candidates[h->candidate_count++] = (struct candidate){
			.sequence = (uint64_t)sequence,
			.forward_thread = forward_thread,
			.backward = forward != 0,
			.is_node = is_node,
			.end = {.start = s.start, .track = chrome_track(s.thread, s.lane)},
		};
	return error;
}

static void put_name_argument(const struct chrome *c, struct buffer *b, const char *key, int64_t id)
{
	if (!id)
		return;
	BUFFER_PUT(b, ",\"");
	buffer_put(b, key, strlen(key));
	BUFFER_PUT(b, "\":\"");
	names_put(&c->names, b, id);
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
static void put_annotation(const struct chrome *c, struct buffer *b, sqlite3_value **row, int first)
{
	const char *source = range_source_word((unsigned)sqlite3_value_int(row[first]));
	uint32_t color = (uint32_t)sqlite3_value_int64(row[first + 3]);
	if (source) {
		BUFFER_PUT(b, ",\"source\":");
		buffer_put_string(b, source);
	}
	put_name_argument(c, b, "domain", sqlite3_value_int64(row[first + 1]));
	put_name_argument(c, b, "category", sqlite3_value_int64(row[first + 2]));
	if (color) {
		char text[40];
		int n = snprintf(text, sizeof text, ",\"color\":\"#%08" PRIX32 "\"", color);
		buffer_put(b, text, (size_t)n);
	}
	if (sqlite3_value_int64(row[first + 4]))
		put_payload(b, sqlite3_value_int64(row[first + 4]), (uint64_t)sqlite3_value_int64(row[first + 5]));
}

/* The job's own name, where the event has another. */
static void put_original(const struct chrome *c, struct buffer *b, int64_t name)
{
	if (!names_is_renamed(&c->names, name))
		return;
	BUFFER_PUT(b, ",\"Name\":\"");
	names_put_original(&c->names, b, name);
	BUFFER_PUT(b, "\"");
}

int host_put_range(const struct chrome *c, struct host_events *h, struct buffer *b, sqlite3_value **row, int64_t index)
{
	struct named s = {
		.category = "user_annotation",
		.start = figure_time(sqlite3_value_int64(row[2])),
		.duration = length_of(row[3]),
		.id = sqlite3_value_int64(row[4]),
		.name = sqlite3_value_int64(row[5]),
		.thread = (uint32_t)sqlite3_value_int64(row[6]),
	};
	if (!slice_time(c->part, s.start, s.duration))
		return 0;
	/* Start/end ranges may overlap in any way: they belong to no thread. */
	if (sqlite3_value_int64(row[7]) == RANGE_SOURCE_NVTX_START_END)
		s.lane = NESTING_ASYNC;
	else
		s.lane = nesting_lane(&c->nesting, NESTING_RANGES, sqlite3_value_int64(row[0]), &h->range_at);
	int64_t inputs = sqlite3_value_int64(row[14]);
	put_slice(c, b, &s);
	put_original(c, b, s.name);
	put_annotation(c, b, row, 7);
	int error = inputs ? inputs_put(&h->inputs, h->reader, b, inputs) : 0;
	put_slice_end(c, b, &s, sqlite3_value_int64(row[1]), sqlite3_value_int64(row[13]), index);
	return error;
}

int host_put_mark(const struct chrome *c, struct host_events *h, struct buffer *b, sqlite3_value **row, int64_t index)
{
	(void)h;
	if (!slice_time(c->part, figure_time(sqlite3_value_int64(row[1])), 0))
		return 0;
	event_begin(b, 'i', "user_annotation");
	names_put(&c->names, b, sqlite3_value_int64(row[2]));
	event_place(c, b, chrome_track((uint32_t)sqlite3_value_int64(row[3]), 0),
		    figure_time(sqlite3_value_int64(row[1])));
	BUFFER_PUT(b, ",\"s\":\"t\",\"args\":{\"Ev Idx\":");
	buffer_put_int(b, index);
	put_original(c, b, sqlite3_value_int64(row[2]));
	put_annotation(c, b, row, 4);
	BUFFER_PUT(b, "}}");
	return 0;
}
