/* derive_load.c - see derive_load.h. */
#include "derive_load.h"

#define MEMBER_COLUMNS 13
struct source {
	unsigned kind;
	const char *sql;
};
/* rowid, step, flags, then what device_add wants to know, in the order of fill(). */
static const struct source sources[] = {
	{EVENT_API_CALL,
	 "SELECT rowid, step, flags, start, duration, correlation, thread, name, domain, result FROM api_calls"},
	{EVENT_KERNEL,
	 "SELECT rowid, step, flags, start, duration, correlation, device, context, stream, name FROM kernel_records"},
	{EVENT_COPY,
	 "SELECT rowid, step, flags, start, duration, correlation, device, context, stream, kind, source_kind, "
	 "target_kind, bytes FROM copy_records"},
	{EVENT_SET,
	 "SELECT rowid, step, flags, start, duration, correlation, device, context, stream, memory_kind, bytes "
	 "FROM set_records"},
	{EVENT_GRAPH_LAUNCH,
	 "SELECT rowid, step, flags, start, duration, correlation, device, context, stream, graph FROM "
	 "graph_records"},
	{EVENT_SYNC, "SELECT rowid, step, flags, start, duration, correlation FROM syncs"},
	{EVENT_CUDA_EVENT, "SELECT rowid, step, flags, time, 0, correlation FROM cuda_events"},
	{EVENT_RANGE,
	 "SELECT rowid, step, flags, start, duration, id, parent, thread, depth, name, source, domain FROM ranges"},
	{EVENT_OPERATOR, "SELECT rowid, step, flags, start, duration, id, parent, thread, depth, name FROM operators"},
};

/* Rows of kernels, copies, sets and graphs begin with these. */
#define OPERATION(event)                                                                                               \
	(event).start = start;                                                                                         \
	(event).duration = (uint64_t)v[4];                                                                             \
	(event).correlation = (uint32_t)v[5];                                                                          \
	(event).device = (uint32_t)v[6];                                                                               \
	(event).context = (uint32_t)v[7];                                                                              \
	(event).stream = (uint32_t)v[8]
/* Rows of ranges and operators begin with these. */
#define FRAME(event)                                                                                                   \
	(event).start = start;                                                                                         \
	(event).duration = (uint64_t)v[4];                                                                             \
	(event).id = (uint64_t)v[5];                                                                                   \
	(event).parent = (uint64_t)v[6];                                                                               \
	(event).thread = (uint32_t)v[7];                                                                               \
	(event).depth = (uint16_t)v[8];                                                                                \
	(event).name = (uint32_t)v[9]

static void fill(union event_any *event, const int64_t v[MEMBER_COLUMNS], uint64_t start)
{
	switch (event->head.kind) {
	case EVENT_API_CALL:
		event->api_call.start = start;
		event->api_call.duration = (uint64_t)v[4];
		event->api_call.correlation = (uint32_t)v[5];
		event->api_call.thread = (uint32_t)v[6];
		event->api_call.name = (uint32_t)v[7];
		event->api_call.domain = (uint16_t)v[8];
		event->api_call.result = (int32_t)v[9];
		break;
	case EVENT_KERNEL:
		OPERATION(event->kernel);
		event->kernel.name = (uint32_t)v[9];
		break;
	case EVENT_COPY:
		OPERATION(event->copy);
		event->copy.kind = (uint8_t)v[9];
		event->copy.source_kind = (uint8_t)v[10];
		event->copy.target_kind = (uint8_t)v[11];
		event->copy.bytes = (uint64_t)v[12];
		break;
	case EVENT_SET:
		OPERATION(event->set);
		event->set.memory_kind = (uint8_t)v[9];
		event->set.bytes = (uint64_t)v[10];
		break;
	case EVENT_GRAPH_LAUNCH:
		OPERATION(event->graph_launch);
		event->graph_launch.graph = (uint32_t)v[9];
		break;
	case EVENT_SYNC:
		event->sync.start = start;
		event->sync.duration = (uint64_t)v[4];
		event->sync.correlation = (uint32_t)v[5];
		break;
	case EVENT_CUDA_EVENT:
		event->cuda_event.time = start;
		event->cuda_event.correlation = (uint32_t)v[5];
		break;
	case EVENT_RANGE:
		FRAME(event->range);
		event->range.source = (uint8_t)v[10];
		event->range.domain = (uint32_t)v[11];
		break;
	default:
		FRAME(event->operator);
		break;
	}
}

int derive_load(struct device *device, struct store *store)
{
	int folder = device->folder;
	struct memory *memory = device->memory;
	device_deinit(device);
	device_init(device, folder, memory);
	device_want(device);
	store_run(store, "DROP TABLE IF EXISTS temp.sums");
	for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
		sqlite3_stmt *statement = store_prepare(store, sources[i].sql);
		int code = SQLITE_DONE;
		while (statement && (code = sqlite3_step(statement)) == SQLITE_ROW) {
			int64_t values[MEMBER_COLUMNS] = {0};
			int columns = sqlite3_column_count(statement);
			for (int k = 0; k < columns; k++)
				values[k] = sqlite3_column_int64(statement, k);
			bool timed = sqlite3_column_type(statement, 3) != SQLITE_NULL;
			union event_any event = {.head = {.kind = (uint8_t)sources[i].kind,
							  .step = (uint32_t)values[1],
							  .flags = (uint8_t)values[2]}};
			fill(&event, values, timed ? (uint64_t)values[3] + store->base : 0);
			device->rows[sources[i].kind] = (uint64_t)values[0] - 1;
			device_add(device, store, &event);
		}
		if (statement && code != SQLITE_DONE)
			store_fail(store, "reading");
		sqlite3_finalize(statement);
	}
	return store->error;
}
