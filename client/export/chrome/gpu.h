/* gpu.h - the events of the device side as Kineto writes them: API calls, waits, the projections of ranges, flows from
 * a launch to what it launched; and the parts that gpu_kernel.c makes its events of. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_GPU_H
#define PROFD_CLIENT_EXPORT_CHROME_GPU_H

#include "chrome.h"

#include <sqlite3.h>

/* A row of a table, to be put. */
struct gpu_row {
	const struct chrome *chrome;
	struct buffer *buffer;
	sqlite3_value **values; /* as its query has them */
	uint8_t lane;
	const struct reader *reader;  /* the thread's own */
	sqlite3_stmt **find_operator; /* kept from row to row; the caller finalizes it */
	uint64_t *timeless;	      /* counts operations without times, which have no place in a trace */
	uint64_t *flows_left_out;     /* and those whose flow cannot be drawn */
};

typedef void (*gpu_put)(const struct gpu_row *r);

void gpu_put_api_call(const struct gpu_row *r);
void gpu_put_sync(const struct gpu_row *r);
void gpu_put_overhead(const struct gpu_row *r);

/* Queries of the rows: profd_row() with column 0 the row's number, 1 its flags. */
extern const char gpu_api_call_query[], gpu_sync_query[], gpu_overhead_query[];

/* One projection of a range or a step; *move as nesting_lane's. */
void gpu_put_projection(const struct chrome *c, struct buffer *b, size_t index, size_t *move);

/* Values that all operations of a device begin with. */
enum gpu_value {
	GPU_ROW,
	GPU_FLAGS,
	GPU_START,
	GPU_DURATION,
	GPU_DEVICE,
	GPU_STREAM,
	GPU_CONTEXT,
	GPU_CORRELATION,
	GPU_RANGE,
	GPU_API,
	GPU_API_START,
	GPU_API_DURATION,
	GPU_API_THREAD,
	GPU_OPERATIONS,
	GPU_GRAPH,
	GPU_GRAPH_NODE,
	GPU_OWN /* the first of the kind's own */
};
#define GPU_VALUES(graph, graph_node)                                                                                  \
	"SELECT profd_row(r.rowid, r.flags, r.start, r.duration, r.device, r.stream, r.context, r.correlation, "       \
	"l.range, l.api, l.start, l.duration, l.thread, l.operations, " graph ", " graph_node
#define GPU_LAUNCH "LEFT JOIN launches l ON l.correlation = r.correlation "
#define GPU_ROWS "WHERE r.rowid BETWEEN ? AND ?"

static inline int64_t gpu_int(const struct gpu_row *r, unsigned value)
{
	return sqlite3_value_int64(r->values[value]);
}
static inline uint32_t gpu_number(const struct gpu_row *r, unsigned value)
{
	return (uint32_t)gpu_int(r, value);
}
static inline bool gpu_has(const struct gpu_row *r, unsigned value)
{
	return sqlite3_value_type(r->values[value]) != SQLITE_NULL;
}

/* A slice on a track of a device, or of the profiler's own; the name stands in `name`, or is put by the caller between
 * gpu_begin and gpu_place. */
struct gpu_slice {
	enum nesting_table table;
	const char *category;
	uint64_t track;
	int64_t start, duration;
};
/* Counts the row and is false where the operation has no time. */
bool gpu_operation(const struct gpu_row *r, struct gpu_slice *ret_slice, enum nesting_table table,
		   const char *category);
void gpu_begin(const struct gpu_row *r, const struct gpu_slice *s);
/* Up to the first argument, which has no comma before it. */
void gpu_place(const struct gpu_row *r, const struct gpu_slice *s);
/* "External id" where it is known, device, context, stream, correlation; graph. */
void gpu_arguments(const struct gpu_row *r);
/* The operation of several processes in whose record_param_comms it was launched: no operator lies between. NULL: none. */
const struct collective *gpu_collective(const struct gpu_row *r);
/* The last arguments, the end, and for an asynchronous pair its second half, whose name `put_name` puts. */
void gpu_end(const struct gpu_row *r, const struct gpu_slice *s, gpu_put put_name);
/* The flow from the call that launched an operation. */
void gpu_flow(const struct gpu_row *r, const struct gpu_slice *s);

/* The track as a thread of its process: number, and process. */
int64_t gpu_track(uint64_t track, unsigned lane);
int64_t gpu_process(const struct chrome *c, uint64_t track);

#endif
