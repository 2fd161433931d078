/* driver.h - the CUDA driver API as the workloads use it: the few types, and each function by dlsym out of the libcuda.so.1
 * that the loader finds. So they build without CUDA, and run unchanged on a GPU and on the simulated driver. */
#ifndef PROFD_TESTS_WORKLOADS_CUDA_DRIVER_H
#define PROFD_TESTS_WORKLOADS_CUDA_DRIVER_H

#include "tests/workloads/workload.h"

typedef int result;
typedef int device;
typedef unsigned long long address;
typedef struct CUctx_st *context;
typedef struct CUmod_st *module;
typedef struct CUfunc_st *function;
typedef struct CUstream_st *stream;
typedef struct CUevent_st *event;
typedef struct CUgraph_st *graph;
typedef struct CUgraphNode_st *graph_node;
typedef struct CUgraphExec_st *graph_exec;

enum { STREAM_NON_BLOCKING = 1, CAPTURE_RELAXED = 2, ERROR_NOT_READY = 600, ERROR_LAUNCH_FAILED = 719 };

struct kernel_node {
	function function;
	unsigned grid[3], block[3], shared;
	void **parameters, **extra;
};

/* name as its calls are known by (CUPTI's without a suffix), symbol in the library, parameters */
#define DRIVER_FUNCTIONS(X)                                                                                            \
	X(cuInit, cuInit, (unsigned))                                                                                  \
	X(cuDriverGetVersion, cuDriverGetVersion, (int *))                                                             \
	X(cuDeviceGet, cuDeviceGet, (device *, int))                                                                   \
	X(cuDeviceGetCount, cuDeviceGetCount, (int *))                                                                 \
	X(cuDeviceGetName, cuDeviceGetName, (char *, int, device))                                                     \
	X(cuCtxCreate, cuCtxCreate_v2, (context *, unsigned, device))                                                  \
	X(cuCtxDestroy, cuCtxDestroy_v2, (context))                                                                    \
	X(cuCtxSetCurrent, cuCtxSetCurrent, (context))                                                                 \
	X(cuCtxSynchronize, cuCtxSynchronize, (void))                                                                  \
	X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, (context, unsigned))                                           \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (context *, device))                                     \
	X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, (device))                                               \
	X(cuModuleLoadData, cuModuleLoadData, (module *, const void *))                                                \
	X(cuModuleUnload, cuModuleUnload, (module))                                                                    \
	X(cuModuleGetFunction, cuModuleGetFunction, (function *, module, const char *))                                \
	X(cuStreamCreate, cuStreamCreate, (stream *, unsigned))                                                        \
	X(cuStreamDestroy, cuStreamDestroy_v2, (stream))                                                               \
	X(cuStreamSynchronize, cuStreamSynchronize, (stream))                                                          \
	X(cuStreamQuery, cuStreamQuery, (stream))                                                                      \
	X(cuStreamWaitEvent, cuStreamWaitEvent, (stream, event, unsigned))                                             \
	X(cuStreamBeginCapture, cuStreamBeginCapture_v2, (stream, int))                                                \
	X(cuStreamEndCapture, cuStreamEndCapture, (stream, graph *))                                                   \
	X(cuEventCreate, cuEventCreate, (event *, unsigned))                                                           \
	X(cuEventDestroy, cuEventDestroy_v2, (event))                                                                  \
	X(cuEventRecord, cuEventRecord, (event, stream))                                                               \
	X(cuEventSynchronize, cuEventSynchronize, (event))                                                             \
	X(cuEventElapsedTime, cuEventElapsedTime, (float *, event, event))                                             \
	X(cuLaunchKernel, cuLaunchKernel,                                                                              \
	  (function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, stream, void **, void **))  \
	X(cuMemAlloc, cuMemAlloc_v2, (address *, size_t))                                                              \
	X(cuMemFree, cuMemFree_v2, (address))                                                                          \
	X(cuMemAllocAsync, cuMemAllocAsync, (address *, size_t, stream))                                               \
	X(cuMemFreeAsync, cuMemFreeAsync, (address, stream))                                                           \
	X(cuMemHostAlloc, cuMemHostAlloc, (void **, size_t, unsigned))                                                 \
	X(cuMemFreeHost, cuMemFreeHost, (void *))                                                                      \
	X(cuMemcpyHtoD, cuMemcpyHtoD_v2, (address, const void *, size_t))                                              \
	X(cuMemcpyDtoH, cuMemcpyDtoH_v2, (void *, address, size_t))                                                    \
	X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (address, const void *, size_t, stream))                            \
	X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *, address, size_t, stream))                                  \
	X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (address, address, size_t, stream))                                 \
	X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, (address, context, address, context, size_t, stream))                  \
	X(cuMemsetD8Async, cuMemsetD8Async, (address, unsigned char, size_t, stream))                                  \
	X(cuMemsetD32Async, cuMemsetD32Async, (address, unsigned, size_t, stream))                                     \
	X(cuGraphInstantiate, cuGraphInstantiate_v2, (graph_exec *, graph, graph_node *, char *, size_t))              \
	X(cuGraphLaunch, cuGraphLaunch, (graph_exec, stream))                                                          \
	X(cuGraphExecDestroy, cuGraphExecDestroy, (graph_exec))                                                        \
	X(cuGraphDestroy, cuGraphDestroy, (graph))                                                                     \
	X(cuGraphCreate, cuGraphCreate, (graph *, unsigned))                                                           \
	X(cuGraphAddKernelNode, cuGraphAddKernelNode,                                                                  \
	  (graph_node *, graph, const graph_node *, size_t, const struct kernel_node *))                               \
	X(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode, (graph_node *, graph, const graph_node *, size_t, graph))

enum call {
#define X(name, symbol, parameters) CALL_##name,
	DRIVER_FUNCTIONS(X)
#undef X
		CALLS
};

static const char *const call_names[CALLS] = {
#define X(name, symbol, parameters) #name,
	DRIVER_FUNCTIONS(X)
#undef X
};

static struct {
#define X(name, symbol, parameters) result(*name) parameters;
	DRIVER_FUNCTIONS(X)
#undef X
} driver;

/* Not in every driver: id of a stream as records show it (12.0). */
static result (*stream_get_id)(stream, unsigned long long *);

/* How often this thread called what. */
static __thread uint64_t calls[CALLS];

static inline void fail(const char *what, result error)
{
	fprintf(stderr, "%s: error %d\n", what, error);
	printf("{\"error\": %d, \"call\": \"%s\"}\n", error, what);
	fflush(stdout);
	_exit(3);
}

/* Calls and counts; an error ends the program with 3. TRY: hands the error back. */
#define TRY(name, ...) (calls[CALL_##name]++, driver.name(__VA_ARGS__))
#define DO(name, ...)                                                                                                  \
	do {                                                                                                           \
		result error_of_##name = TRY(name, __VA_ARGS__);                                                       \
		if (error_of_##name)                                                                                   \
			fail(#name, error_of_##name);                                                                  \
	} while (0)

/* Waits for the end of a period of `period` seconds. One that took longer is not caught up with: the next one is whole. */
static inline void wait_period(double *next, double period)
{
	*next += period;
	wait_until(*next);
	if (seconds() > *next + period)
		*next = seconds();
}

/* Finds the driver and initialises it. Without one: says so and exits with 77, which is "skipped". */
static inline void driver_open(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (!library) {
		fprintf(stderr, "no CUDA driver: %s\n", dlerror());
		exit(77);
	}
#define X(name, symbol, parameters)                                                                                    \
	*(void **)&driver.name = dlsym(library, #symbol);                                                              \
	if (!driver.name) {                                                                                            \
		fprintf(stderr, "the CUDA driver has no " #symbol "\n");                                               \
		exit(4);                                                                                               \
	}
	DRIVER_FUNCTIONS(X)
#undef X
	*(void **)&stream_get_id = dlsym(library, "cuStreamGetId");
	result error = TRY(cuInit, 0);
	if (error == 100) {
		fprintf(stderr, "no CUDA device\n");
		exit(77);
	}
	if (error)
		fail("cuInit", error);
}

/* ---- kernels. spin waits its parameter's ns by the GPU's own clock; the others return at once. On the simulated driver
 * spin takes as long, those that begin with "empty" 1 us and all others 20 us, unless its script says otherwise. */

enum kernel { SPIN, EMPTY, VECTOR, REDUCE, TILED, KERNELS };

static const char *const kernel_names[KERNELS] = {
	"spin",
	"empty",
	"_Z6vectorIfEvPT_i",
	"_ZN2at6native13reduce_kernelILi512ELi1EfEEvPT1_i",
	"_ZN12_GLOBAL__N_15tiledILi32EEEvPKfPfi",
};

static const char ptx[] = ".version 6.4\n"
			  ".target sm_52\n"
			  ".address_size 64\n"
			  ".visible .entry spin(\n"
			  "	.param .u64 spin_ns\n"
			  ")\n"
			  "{\n"
			  "	.reg .pred %p<2>;\n"
			  "	.reg .b64 %rd<5>;\n"
			  "	ld.param.u64 %rd1, [spin_ns];\n"
			  "	mov.u64 %rd2, %globaltimer;\n"
			  "	add.s64 %rd3, %rd2, %rd1;\n"
			  "$again:\n"
			  "	mov.u64 %rd4, %globaltimer;\n"
			  "	setp.lt.u64 %p1, %rd4, %rd3;\n"
			  "	@%p1 bra $again;\n"
			  "	ret;\n"
			  "}\n"
			  ".visible .entry empty()\n"
			  "{\n"
			  "	ret;\n"
			  "}\n"
			  ".visible .entry _Z6vectorIfEvPT_i(\n"
			  "	.param .u64 vector_at,\n"
			  "	.param .u32 vector_n\n"
			  ")\n"
			  "{\n"
			  "	ret;\n"
			  "}\n"
			  ".visible .entry _ZN2at6native13reduce_kernelILi512ELi1EfEEvPT1_i(\n"
			  "	.param .u64 reduce_at,\n"
			  "	.param .u32 reduce_n\n"
			  ")\n"
			  "{\n"
			  "	ret;\n"
			  "}\n"
			  ".visible .entry _ZN12_GLOBAL__N_15tiledILi32EEEvPKfPfi(\n"
			  "	.param .u64 tiled_from,\n"
			  "	.param .u64 tiled_to,\n"
			  "	.param .u32 tiled_n\n"
			  ")\n"
			  "{\n"
			  "	ret;\n"
			  "}\n";

/* Loads the kernels into the current context. */
static inline void kernels_load(function to[KERNELS])
{
	module loaded;
	DO(cuModuleLoadData, &loaded, ptx);
	for (int k = 0; k < KERNELS; k++)
		DO(cuModuleGetFunction, &to[k], loaded, kernel_names[k]);
}

/* What loads code: a module, and a graph that is made ready for its launch. */
static inline void code_load(void)
{
	module loaded;
	graph made;
	graph_exec ready;
	DO(cuModuleLoadData, &loaded, ptx);
	DO(cuModuleUnload, loaded);
	DO(cuGraphCreate, &made, 0);
	DO(cuGraphInstantiate, &ready, made, NULL, NULL, 0);
	DO(cuGraphExecDestroy, ready);
	DO(cuGraphDestroy, made);
}

/* Launches one kernel of one block of 32 threads; `ns` is what spin waits. */
static inline result kernel_launch(function kernel, uint64_t ns, stream in)
{
	static uint64_t nothing;
	int n = 0;
	/* spin has one parameter, the others up to three: a driver reads as many as there are */
	void *parameters[] = {&ns, &nothing, &n};
	return TRY(cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, in, parameters, NULL);
}

#endif
