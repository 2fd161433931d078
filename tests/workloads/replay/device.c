/* device.c - see device.h. The driver is found at run time and its few functions are declared here, so that this is
 * built without CUDA's headers. Graphs are made before the first launch: one for each sequence of kinds that a call
 * of the timeline launched, by capturing a stream. */
#include "device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct CUctx_st *context_handle;
typedef struct CUstream_st *stream_handle;
typedef struct CUfunc_st *function_handle;
typedef struct CUgraphExec_st *graph_exec_handle;
typedef unsigned long long address;

/* CUlaunchConfig */
struct launch_config {
	unsigned grid[3], block[3], shared;
	stream_handle stream;
	void *attributes;
	unsigned attribute_count;
};

#define FUNCTIONS(X)                                                                                                   \
	X(cuInit, (unsigned))                                                                                          \
	X(cuDeviceGetCount, (int *))                                                                                   \
	X(cuDevicePrimaryCtxRetain, (context_handle *, int))                                                           \
	X(cuCtxSetCurrent, (context_handle))                                                                           \
	X(cuModuleLoadData, (void **, const void *))                                                                   \
	X(cuModuleGetFunction, (function_handle *, void *, const char *))                                              \
	X(cuMemAlloc_v2, (address *, size_t))                                                                          \
	X(cuStreamCreate, (stream_handle *, unsigned))                                                                 \
	X(cuLaunchKernel, (function_handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,      \
			   stream_handle, void **, void **))                                                           \
	X(cuLaunchKernelEx, (const struct launch_config *, function_handle, void **, void **))                         \
	X(cuMemcpyAsync, (address, address, size_t, stream_handle))                                                    \
	X(cuMemcpyPeerAsync, (address, context_handle, address, context_handle, size_t, stream_handle))                \
	X(cuMemsetD8Async, (address, unsigned char, size_t, stream_handle))                                            \
	X(cuStreamBeginCapture_v2, (stream_handle, int))                                                               \
	X(cuStreamEndCapture, (stream_handle, void **))                                                                \
	X(cuGraphInstantiateWithFlags, (graph_exec_handle *, void *, unsigned long long))                              \
	X(cuGraphLaunch, (graph_exec_handle, stream_handle))

#define DECLARE(name, arguments) static int(*name) arguments;
FUNCTIONS(DECLARE)
#undef DECLARE

static simcuda_hint_fn *hint_next;
static simcuda_runtime_enter_fn *runtime_enter;
static simcuda_runtime_leave_fn *runtime_leave;
static simcuda_counts_fn *counts_of;

/* What the replay has on each device. */
struct device {
	context_handle context;
	stream_handle stream;
	function_handle function;
	address memory;
};

struct graph {
	struct graph *next;
	uint32_t device;
	char *kinds; /* of its nodes, in order */
	graph_exec_handle exec;
};

enum { MEMORY_BYTES = 4096, STREAM_NON_BLOCKING = 1, CAPTURE_RELAXED = 2 };

static const char image[] = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry replayed()\n{\n\tret;\n}\n";

static const struct timeline *timeline;
static struct device *devices;
static uint32_t device_count;
static struct graph *graphs;
static __thread uint32_t current; /* device + 1; 0 = none yet */

#define DO(function, ...)                                                                                              \
	do {                                                                                                           \
		int result_ = function(__VA_ARGS__);                                                                   \
		if (result_)                                                                                           \
			fail(#function " answers %d", result_);                                                        \
	} while (0)

static void find_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (!driver)
		fail("%s", dlerror());
#define FIND(name, arguments)                                                                                          \
	*(void **)&name = dlsym(driver, #name);                                                                        \
	if (!name)                                                                                                     \
		fail("the driver has no " #name);
	FUNCTIONS(FIND)
#undef FIND
	*(void **)&hint_next = dlsym(driver, "simcuda_hint");
	*(void **)&runtime_enter = dlsym(driver, "simcuda_runtime_enter");
	*(void **)&runtime_leave = dlsym(driver, "simcuda_runtime_leave");
	*(void **)&counts_of = dlsym(driver, "simcuda_counts");
	if (!hint_next || !runtime_enter || !runtime_leave || !counts_of)
		fail("a timeline is replayed on the simulated driver; this libcuda.so.1 is another");
}

static void switch_to(uint32_t device)
{
	if (current == device + 1)
		return;
	DO(cuCtxSetCurrent, devices[device].context);
	current = device + 1;
}

static uint32_t device_of(const struct operation *operation)
{
	return timeline->streams[operation->stream].device;
}

/* The call itself; what it is known by has been said before. */
static void submit(const struct operation *operation, const char *name)
{
	struct device *device = &devices[device_of(operation)];
	/* The driver checks these; what it records was said by the hint. */
	if (operation->kind == 'z') {
		DO(cuMemsetD8Async, device->memory, 0, 1, device->stream);
	} else if (operation->kind == 'm' && operation->is_peer) {
		struct device *source = &devices[operation->source_device],
			      *target = &devices[operation->target_device];
		DO(cuMemcpyPeerAsync, target->memory, target->context, source->memory, source->context, 1,
		   device->stream);
	} else if (operation->kind == 'm') {
		DO(cuMemcpyAsync, device->memory, device->memory + MEMORY_BYTES / 2, 1, device->stream);
	} else if (strcmp(name, "cuLaunchKernelEx") == 0) {
		struct launch_config config = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = device->stream};
		DO(cuLaunchKernelEx, &config, device->function, NULL, NULL);
	} else {
		DO(cuLaunchKernel, device->function, 1, 1, 1, 1, 1, 1, 0, device->stream, NULL, NULL);
	}
}

static struct graph *graph_of(const struct item *call)
{
	const struct operation *first = &timeline->operations[call->first];
	for (struct graph *graph = graphs; graph; graph = graph->next) {
		if (graph->device != device_of(first) || strlen(graph->kinds) != call->count)
			continue;
		size_t i = 0;
		while (i < call->count && graph->kinds[i] == first[i].kind)
			i++;
		if (i == call->count)
			return graph;
	}
	return NULL;
}

static int is_graph_launch(const struct item *call)
{
	return call->count && timeline->operations[call->first].is_node;
}

static void make_graph(const struct item *call)
{
	const struct operation *first = &timeline->operations[call->first];
	struct graph *graph = calloc(1, sizeof *graph);
	void *made;
	if (!graph || !(graph->kinds = calloc(call->count + 1, 1)))
		fail("out of memory");
	graph->device = device_of(first);
	switch_to(graph->device);
	DO(cuStreamBeginCapture_v2, devices[graph->device].stream, CAPTURE_RELAXED);
	for (size_t i = 0; i < call->count; i++) {
		if (device_of(&first[i]) != graph->device)
			fail("a graph on more than one device is not replayed");
		graph->kinds[i] = first[i].kind;
		submit(&first[i], "");
	}
	DO(cuStreamEndCapture, devices[graph->device].stream, &made);
	DO(cuGraphInstantiateWithFlags, &graph->exec, made, 0);
	graph->next = graphs;
	graphs = graph;
}

void device_open(const struct timeline *file)
{
	int count = 0;
	timeline = file;
	find_driver();
	for (size_t i = 1; i < timeline->stream_count; i++)
		if (timeline->streams[i].device >= device_count)
			device_count = timeline->streams[i].device + 1;
	for (size_t i = 0; i < timeline->operation_count; i++) {
		const struct operation *operation = &timeline->operations[i];
		if (operation->is_peer && operation->source_device >= device_count)
			device_count = operation->source_device + 1;
		if (operation->is_peer && operation->target_device >= device_count)
			device_count = operation->target_device + 1;
	}
	DO(cuInit, 0);
	DO(cuDeviceGetCount, &count);
	if ((uint32_t)count < device_count)
		fail("the timeline has %u devices, the simulator %d: SIMCUDA=devices=%u", device_count, count,
		     device_count);
	devices = calloc(device_count + 1, sizeof *devices);
	if (!devices)
		fail("out of memory");
	for (uint32_t i = 0; i < device_count; i++) {
		struct device *device = &devices[i];
		void *module;
		DO(cuDevicePrimaryCtxRetain, &device->context, (int)i);
		switch_to(i);
		DO(cuModuleLoadData, &module, image);
		DO(cuModuleGetFunction, &device->function, module, "replayed");
		DO(cuMemAlloc_v2, &device->memory, MEMORY_BYTES);
		DO(cuStreamCreate, &device->stream, STREAM_NON_BLOCKING);
	}
	for (size_t t = 1; t < timeline->thread_count; t++)
		for (size_t i = 0; i < timeline->threads[t].count; i++)
			if (is_graph_launch(&timeline->threads[t].items[i]) &&
			    !graph_of(&timeline->threads[t].items[i]))
				make_graph(&timeline->threads[t].items[i]);
}

void device_enter(const char *name)
{
	runtime_enter(name, 0, 0);
}

void device_leave(int32_t result)
{
	runtime_leave(result, 0);
}

static void hint(const struct operation *operation, uint64_t origin, uint64_t from, double speed)
{
	const struct stream *stream = &timeline->streams[operation->stream];
	uint64_t start = origin + timeline_warp(timeline, operation->start, speed) - from;
	struct simcuda_hint said = {
		.bytes = sizeof said,
		.device = stream->device,
		.context = stream->context,
		.stream = stream->id,
		.has_stream = 1,
		.start = start,
		.end = start + operation->duration,
		.name = operation->kind == 'k' ? timeline->strings[operation->name] : NULL,
		.registers = operation->registers,
		.static_shared = operation->static_shared,
		.dynamic_shared = operation->dynamic_shared,
		.copy_bytes = operation->bytes,
		.copy_kind = operation->copy_kind,
		.source_kind = operation->source_kind,
		.target_kind = operation->target_kind,
		.graph = operation->graph,
		.graph_node = operation->graph_node,
		.queued = operation->queued ? origin + timeline_warp(timeline, operation->queued, speed) - from : 0,
	};
	memcpy(said.grid, operation->grid, sizeof said.grid);
	memcpy(said.block, operation->block, sizeof said.block);
	hint_next(&said);
}

void device_launch(const struct item *call, uint64_t origin, uint64_t from, double speed)
{
	const struct operation *operations = &timeline->operations[call->first];
	if (!call->count)
		return;
	switch_to(device_of(operations));
	if (is_graph_launch(call)) {
		for (size_t i = 0; i < call->count; i++)
			hint(&operations[i], origin, from, speed);
		DO(cuGraphLaunch, graph_of(call)->exec, devices[device_of(operations)].stream);
		return;
	}
	for (size_t i = 0; i < call->count; i++) {
		switch_to(device_of(&operations[i]));
		hint(&operations[i], origin, from, speed);
		submit(&operations[i], timeline->strings[call->name]);
	}
}

void device_counts(struct simcuda_counts *counts)
{
	counts_of(counts);
}
