/* test_sim_seen.c - what the simulated driver does as a real one was seen to do, and what it tells for the simulated CUPTI to do
 * the same (tests/sim/cupti/seen.c). ctest gives it SIMCUDA=graph_copy_kernel=1. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "observer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

simcuda_observe_fn simcuda_observe;
simcuda_drain_fn simcuda_drain;

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

enum { LOG_MAX = 64, BYTES = 4096 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_operation finished[LOG_MAX];
static unsigned finished_count, graph_count;
static uint32_t last_graph;

static void on_finished(const struct sim_operation *operation)
{
	pthread_mutex_lock(&lock);
	if (finished_count < LOG_MAX && operation->kind != SIM_SYNC)
		finished[finished_count++] = *operation;
	pthread_mutex_unlock(&lock);
}

static void on_graph(uint32_t id)
{
	pthread_mutex_lock(&lock);
	last_graph = id;
	graph_count++;
	pthread_mutex_unlock(&lock);
}

static const struct sim_observer observer = {.finished = on_finished, .graph = on_graph};
static CUfunction spin;

static int setup(void **state)
{
	static const char image[] = ".version 6.4\n.target sm_52\n.address_size 64\n"
				    ".visible .entry spin(.param .u64 ns)\n{ ret; }\n";
	CUcontext context;
	CUmodule module;
	(void)state;
	return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	       cuModuleLoadData(&module, image) || cuModuleGetFunction(&spin, module, "spin") ||
	       simcuda_observe(&observer);
}

static void launch_spin(CUstream stream, uint64_t ns)
{
	void *parameters[] = {&ns};
	OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

/* A kernel stands in the place of the copy inside of the device, and of no other copy. */
static void test_copy_in_a_graph(void **state)
{
	static const uint32_t kinds[] = {SIM_KERNEL, SIM_COPY, SIM_COPY};
	CUstream stream;
	CUgraph graph;
	CUgraphExec executable;
	CUdeviceptr memory;
	void *host;
	(void)state;
	OK(cuMemAlloc_v2(&memory, BYTES));
	OK(cuMemHostAlloc(&host, BYTES, 0));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemcpyDtoDAsync_v2(memory + BYTES / 2, memory, BYTES / 2, stream));
	OK(cuMemcpyDtoHAsync_v2(host, memory, BYTES, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
	assert_int_equal(graph_count, 1);
	OK(cuGraphLaunch(executable, stream));
	OK(cuMemcpyDtoDAsync_v2(memory + BYTES / 2, memory, BYTES / 2, stream));
	OK(cuStreamSynchronize(stream));
	assert_int_equal(finished_count, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(finished[i].kind, kinds[i]);
	const struct sim_operation *kernel = &finished[0], *next = &finished[1];
	assert_string_equal(kernel->name, "memcpy32_post");
	assert_int_equal(kernel->graph, last_graph);
	assert_int_equal(kernel->graph, next->graph);
	assert_true(kernel->graph_node && kernel->graph_node != next->graph_node);
	assert_int_equal(kernel->graph_launch, next->graph_launch);
	assert_int_equal(kernel->correlation, next->correlation);
	assert_true(next->start >= kernel->end);
	OK(cuGraphExecDestroy(executable));
	OK(cuGraphDestroy(graph));
}

static void test_drain(void **state)
{
	CUstream streams[2];
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		launch_spin(streams[i], 20000000);
	}
	simcuda_drain();
	for (unsigned i = 0; i < 2; i++)
		OK(cuStreamQuery(streams[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy_in_a_graph),
		cmocka_unit_test(test_drain),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
