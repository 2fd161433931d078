/* gpu_kernel.c - what a device did: kernels, copies, sets, whole graphs. Called as gpu.c is. */
#include "gpu_kernel.h"

#include "event.h"
#include "client/ui/figure.h"
#include "client/reader/occupancy.h"
#include "proto/events.h"

#include <sqlite3.h>

/* --- kernels --- */

enum {
	KERNEL_NAME = GPU_OWN,
	KERNEL_QUEUED,
	KERNEL_REGISTERS,
	KERNEL_SHARED, /* static and dynamic */
	KERNEL_GRID,   /* x, y, z */
	KERNEL_BLOCK = KERNEL_GRID + 3,
	KERNEL_CLUSTER = KERNEL_BLOCK + 3,
	KERNEL_PRIORITY = KERNEL_CLUSTER + 3,
	KERNEL_CHANNEL,
};
const char gpu_kernel_query[] =
	GPU_VALUES("r.graph", "r.graph_node") ", coalesce(n.name, r.name), r.queued, r.registers, r.static_shared + "
					      "r.dynamic_shared, r.grid_x, r.grid_y, r.grid_z, r.block_x, r.block_y, "
					      "r.block_z, r.cluster_x, r.cluster_y, "
					      "r.cluster_z, r.priority, r.channel) FROM kernel_records r " GPU_LAUNCH
					      "LEFT JOIN kernel_names n ON n.mangled = r.name " GPU_ROWS;

static void put_kernel_name(const struct gpu_row *r)
{
	names_put(&r->chrome->names, r->buffer, gpu_int(r, KERNEL_NAME));
}

static void put_three(const struct gpu_row *r, unsigned first)
{
	BUFFER_PUT(r->buffer, "[");
	for (unsigned i = 0; i < 3; i++) {
		if (i)
			BUFFER_PUT(r->buffer, ",");
		buffer_put_int(r->buffer, gpu_int(r, first + i));
	}
	BUFFER_PUT(r->buffer, "]");
}

static int64_t product(const struct gpu_row *r, unsigned first)
{
	int64_t all = 1;
	for (unsigned i = 0; i < 3; i++) {
		int64_t one = gpu_int(r, first + i);
		if (one <= 0 || __builtin_mul_overflow(all, one, &all))
			return 0;
	}
	return all;
}

/* A ratio with six decimals, as Kineto rounds it. */
static void put_ratio(struct buffer *b, double value)
{
	buffer_put_double(b, value < 1e12 ? (double)(int64_t)(value * 1e6 + 0.5) / 1e6 : value);
}

/* How it fills the device: only where the device is described. */
static void put_fill(const struct gpu_row *r)
{
	struct buffer *b = r->buffer;
	const struct device *device = devices_find(&r->chrome->devices, gpu_number(r, GPU_DEVICE));
	const struct occupancy_kernel kernel = {
		.blocks = product(r, KERNEL_GRID),
		.threads = product(r, KERNEL_BLOCK),
		.registers = gpu_int(r, KERNEL_REGISTERS),
		.shared = figure_time(gpu_int(r, KERNEL_SHARED)),
	};
	if (!device || !device->described || device->limits.multiprocessors <= 0 || device->limits.warp <= 0)
		return;
	double blocks = (double)kernel.blocks / (double)device->limits.multiprocessors;
	BUFFER_PUT(b, ",\"blocks per SM\":");
	put_ratio(b, blocks);
	BUFFER_PUT(b, ",\"warps per SM\":");
	put_ratio(b, blocks * (double)kernel.threads / (double)device->limits.warp);
	double achieved = occupancy_achieved(&device->limits, &kernel);
	if (achieved >= 0)
		EVENT_PUT_INT(b, "est. achieved occupancy %", (int64_t)(achieved * 100 + 0.5));
}

void gpu_put_kernel(const struct gpu_row *r)
{
	struct buffer *b = r->buffer;
	struct gpu_slice s;
	if (!gpu_operation(r, &s, NESTING_KERNELS, "kernel"))
		return;
	gpu_begin(r, &s);
	put_kernel_name(r);
	gpu_place(r, &s);
	gpu_arguments(r);
	BUFFER_PUT(b, ",\"queued\":");
	if (gpu_has(r, KERNEL_QUEUED))
		buffer_put_micros(b, figure_time(gpu_int(r, KERNEL_QUEUED)) - r->chrome->origin);
	else
		BUFFER_PUT(b, "0");
	EVENT_PUT_INT(b, "registers per thread", gpu_int(r, KERNEL_REGISTERS));
	EVENT_PUT_INT(b, "shared memory", gpu_int(r, KERNEL_SHARED));
	put_fill(r);
	BUFFER_PUT(b, ",\"grid\":");
	put_three(r, KERNEL_GRID);
	BUFFER_PUT(b, ",\"block\":");
	put_three(r, KERNEL_BLOCK);
	if (gpu_int(r, KERNEL_CLUSTER)) {
		BUFFER_PUT(b, ",\"cluster\":");
		put_three(r, KERNEL_CLUSTER);
	}
	EVENT_PUT_INT(b, "priority", gpu_int(r, KERNEL_PRIORITY));
	if (gpu_int(r, KERNEL_CHANNEL))
		EVENT_PUT_INT(b, "channel", gpu_int(r, KERNEL_CHANNEL));
	const struct collective *collective = gpu_collective(r);
	if (collective)
		collective_put(collective, &r->chrome->names, b, true);
	gpu_end(r, &s, put_kernel_name);
	gpu_flow(r, &s);
}

/* --- graphs as a whole: the device is at work, as in a kernel --- */

const char gpu_graph_query[] = GPU_VALUES("r.graph", "0") ") FROM graph_records r " GPU_LAUNCH GPU_ROWS;

static void put_graph_name(const struct gpu_row *r)
{
	BUFFER_PUT(r->buffer, "CUDA graph ");
	buffer_put_int(r->buffer, gpu_int(r, GPU_GRAPH));
}

void gpu_put_graph(const struct gpu_row *r)
{
	struct gpu_slice s;
	if (!gpu_operation(r, &s, NESTING_GRAPHS, "kernel"))
		return;
	gpu_begin(r, &s);
	put_graph_name(r);
	gpu_place(r, &s);
	gpu_arguments(r);
	BUFFER_PUT(r->buffer, ",\"Whole graph\":true");
	gpu_end(r, &s, put_graph_name);
	gpu_flow(r, &s);
}

/* --- copies and sets --- */

/* CUpti_ActivityMemcpyKind, as enums.def has it. */
enum {
#define COPY_KIND(number, NAME, word) COPY_##NAME = (number),
#include "proto/enums.def"
};

static const char *or_unknown(const char *word)
{
	return word ? word : "Unknown";
}

static const char *copy_kind(int64_t kind)
{
	return or_unknown(copy_kind_word((unsigned)kind));
}

static const char *memory_kind(int64_t kind)
{
	return or_unknown(memory_kind_word((unsigned)kind));
}

static void put_word(struct buffer *b, const char *word)
{
	buffer_put(b, word, strlen(word));
}

static void put_bytes(const struct gpu_row *r, const struct gpu_slice *s, int64_t bytes)
{
	struct buffer *b = r->buffer;
	EVENT_PUT_INT(b, "bytes", bytes);
	if (s->duration > 0) { /* bytes/ns are GB/s */
		BUFFER_PUT(b, ",\"memory bandwidth (GB/s)\":");
		buffer_put_double(b, (double)bytes / (double)s->duration);
	}
}

enum {
	COPY_KIND = GPU_OWN,
	COPY_SOURCE_KIND,
	COPY_TARGET_KIND,
	COPY_BYTES,
	COPY_SOURCE_DEVICE,
	COPY_SOURCE_CONTEXT,
	COPY_TARGET_DEVICE,
	COPY_TARGET_CONTEXT,
};
const char gpu_copy_query[] =
	GPU_VALUES("r.graph", "r.graph_node") ", r.kind, r.source_kind, r.target_kind, r.bytes, "
					      "r.source_device, r.source_context, r.target_device, r.target_context) "
					      "FROM copy_records r " GPU_LAUNCH GPU_ROWS;

static void put_copy_name(const struct gpu_row *r)
{
	struct buffer *b = r->buffer;
	BUFFER_PUT(b, "Memcpy ");
	put_word(b, copy_kind(gpu_int(r, COPY_KIND)));
	BUFFER_PUT(b, " (");
	put_word(b, memory_kind(gpu_int(r, COPY_SOURCE_KIND)));
	BUFFER_PUT(b, " -> ");
	put_word(b, memory_kind(gpu_int(r, COPY_TARGET_KIND)));
	BUFFER_PUT(b, ")");
}

void gpu_put_copy(const struct gpu_row *r)
{
	struct buffer *b = r->buffer;
	struct gpu_slice s;
	if (!gpu_operation(r, &s, NESTING_COPIES, "gpu_memcpy"))
		return;
	gpu_begin(r, &s);
	put_copy_name(r);
	gpu_place(r, &s);
	gpu_arguments(r);
	if (gpu_int(r, COPY_KIND) == COPY_PTOP) {
		EVENT_PUT_INT(b, "fromDevice", gpu_number(r, COPY_SOURCE_DEVICE));
		EVENT_PUT_INT(b, "inDevice", gpu_number(r, GPU_DEVICE));
		EVENT_PUT_INT(b, "toDevice", gpu_number(r, COPY_TARGET_DEVICE));
		EVENT_PUT_INT(b, "fromContext", gpu_number(r, COPY_SOURCE_CONTEXT));
		EVENT_PUT_INT(b, "inContext", gpu_number(r, GPU_CONTEXT));
		EVENT_PUT_INT(b, "toContext", gpu_number(r, COPY_TARGET_CONTEXT));
	}
	put_bytes(r, &s, gpu_int(r, COPY_BYTES));
	gpu_end(r, &s, put_copy_name);
	gpu_flow(r, &s);
}

enum { SET_MEMORY_KIND = GPU_OWN, SET_BYTES };
const char gpu_set_query[] =
	GPU_VALUES("r.graph", "r.graph_node") ", r.memory_kind, r.bytes) FROM set_records r " GPU_LAUNCH GPU_ROWS;

static void put_set_name(const struct gpu_row *r)
{
	BUFFER_PUT(r->buffer, "Memset (");
	put_word(r->buffer, memory_kind(gpu_int(r, SET_MEMORY_KIND)));
	BUFFER_PUT(r->buffer, ")");
}

void gpu_put_set(const struct gpu_row *r)
{
	struct gpu_slice s;
	if (!gpu_operation(r, &s, NESTING_SETS, "gpu_memset"))
		return;
	gpu_begin(r, &s);
	put_set_name(r);
	gpu_place(r, &s);
	gpu_arguments(r);
	put_bytes(r, &s, gpu_int(r, SET_BYTES));
	gpu_end(r, &s, put_set_name);
	gpu_flow(r, &s);
}
