/* test_sim_cuda.c - the simulated driver, through its API and its observer. ctest gives it SIMCUDA=devices=2,
 * correlation=4294967290 and CUDA_INJECTION64_PATH; tests that need another script run this program again in a process of
 * its own. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "observer.h"
#include "simcuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

simcuda_hint_fn simcuda_hint;
simcuda_runtime_enter_fn simcuda_runtime_enter;
simcuda_runtime_leave_fn simcuda_runtime_leave;
simcuda_counts_fn simcuda_counts;
simcuda_observe_fn simcuda_observe;
simcuda_dump_fn simcuda_dump;
simcuda_script_fn simcuda_script;

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

static const char image[] =
	".version 6.4\n.target sm_52\n.address_size 64\n"
	".visible .entry spin(.param .u64 ns)\n{ ret; }\n"
	".visible .entry empty()\n{ ret; }\n"
	".visible .entry _Z4spinm(.param .u64 a, .param .align 8 .b8 b[24], .param .u32 c)\n{ ret; }\n"
	".visible .entry trap()\n{ trap; }\n";

/* ---- what the observer hears */

enum { LOG_MAX = 4096 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_call calls[LOG_MAX];
static struct sim_operation submitted[LOG_MAX], finished[LOG_MAX];
static struct sim_memory memories[LOG_MAX];
static unsigned begins, call_count, submitted_count, finished_count, memory_count, contexts_made, contexts_gone,
	streams_made, streams_gone, modules_made, modules_gone, exits;

static void note(unsigned *count)
{
	pthread_mutex_lock(&lock);
	++*count;
	pthread_mutex_unlock(&lock);
}

#define LOG(array, count, value)                                                                                       \
	do {                                                                                                           \
		pthread_mutex_lock(&lock);                                                                             \
		if (count < LOG_MAX)                                                                                   \
			array[count++] = *value;                                                                       \
		pthread_mutex_unlock(&lock);                                                                           \
	} while (0)

static void on_begin(const struct sim_call *call)
{
	assert_int_equal(call->end, 0);
	note(&begins);
}
static void on_end(const struct sim_call *call)
{
	LOG(calls, call_count, call);
}
static void on_submitted(const struct sim_operation *operation)
{
	LOG(submitted, submitted_count, operation);
}
static void on_finished(const struct sim_operation *operation)
{
	LOG(finished, finished_count, operation);
}
static void on_memory(const struct sim_memory *memory)
{
	LOG(memories, memory_count, memory);
}
static void on_context(const struct sim_context *context, int created)
{
	assert_int_equal(context->default_stream, 7);
	note(created ? &contexts_made : &contexts_gone);
}
static void on_stream(const struct sim_stream *stream, int created)
{
	assert_true(stream->id == 7 || stream->id >= 13);
	note(created ? &streams_made : &streams_gone);
}
static void on_module(const struct sim_module *module, int loaded)
{
	assert_non_null(module->image);
	note(loaded ? &modules_made : &modules_gone);
}
static void on_exiting(void)
{
	note(&exits);
}

static const struct sim_observer observer = {on_begin,	 on_end,    on_submitted, on_finished, on_memory,
					     on_context, on_stream, on_module,	  on_exiting,  NULL};

static CUcontext context;
static CUfunction spin, empty, mangled;

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void launch_spin(CUstream stream, uint64_t ns)
{
	void *parameters[] = {&ns};
	OK(cuLaunchKernel(spin, 2, 1, 1, 64, 1, 1, 128, stream, parameters, NULL));
}

/* The last `n` operations of a kind that finished, oldest first, until the next call. */
static const struct sim_operation *last_finished(uint32_t kind, unsigned n)
{
	static struct sim_operation found[64];
	unsigned left = n;
	assert_true(n <= 64);
	pthread_mutex_lock(&lock);
	for (unsigned i = finished_count; i > 0 && left; i--)
		if (finished[i - 1].kind == kind)
			found[--left] = finished[i - 1];
	pthread_mutex_unlock(&lock);
	assert_int_equal(left, 0);
	return found;
}

static unsigned finished_so_far(void)
{
	pthread_mutex_lock(&lock);
	unsigned n = finished_count;
	pthread_mutex_unlock(&lock);
	return n;
}

static const struct sim_operation *finished_by_correlation(uint32_t correlation)
{
	for (unsigned i = 0, n = finished_so_far(); i < n; i++)
		if (finished[i].correlation == correlation)
			return &finished[i];
	return NULL;
}

static void load_functions(void)
{
	CUmodule module;
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&spin, module, "spin"));
	OK(cuModuleGetFunction(&empty, module, "empty"));
	OK(cuModuleGetFunction(&mangled, module, "_Z4spinm"));
	assert_int_equal(cuModuleGetFunction(&mangled, module, "none"), CUDA_ERROR_NOT_FOUND);
	OK(cuModuleGetFunction(&mangled, module, "_Z4spinm"));
}

static int setup(void **state)
{
	(void)state;
	if (context)
		return 0;
	OK(cuInit(0));
	assert_int_equal(simcuda_observe(&observer), 0);
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	load_functions();
	return 0;
}

/* ---- the tests */

static void test_before_init(void **state)
{
	int version = 0;
	CUdevice device;
	(void)state;
	assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
	assert_int_equal(cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
	assert_int_equal(simcuda_observe(&observer), -1);
	OK(cuDriverGetVersion(&version));
	assert_int_equal(version, CUDA_VERSION);
	const void *table;
	CUuuid id = {{1}};
	assert_int_equal(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
	OK(cuInit(0));
	assert_string_equal(getenv("INJECTED"), "once");
	OK(cuInit(0));
	assert_string_equal(getenv("INJECTED"), "once");
}

static void test_devices(void **state)
{
	char name[64];
	int count, value;
	(void)state;
	OK(cuDeviceGetCount(&count));
	assert_int_equal(count, 2);
	OK(cuDeviceGetName(name, sizeof name, 1));
	assert_memory_equal(name, SIMCUDA_DEVICE_PREFIX, strlen(SIMCUDA_DEVICE_PREFIX));
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	assert_int_equal(value, 108);
	assert_int_equal(cuDeviceGetAttribute(&value, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuDeviceGetName(name, sizeof name, 2), CUDA_ERROR_INVALID_DEVICE);
}

static void test_calls_and_operations(void **state)
{
	(void)state;
	unsigned first_call = call_count, first = submitted_count;
	struct simcuda_counts before, after;
	simcuda_counts(&before);
	for (int i = 0; i < 20; i++)
		OK(cuLaunchKernel(empty, 1, 2, 3, 32, 2, 1, 16, NULL, NULL, NULL));
	OK(cuCtxSynchronize());
	simcuda_counts(&after);
	assert_int_equal(after.kernels - before.kernels, 20);
	assert_int_equal(after.calls_driver - before.calls_driver, 21);
	assert_int_equal(call_count - first_call, 21);
	assert_int_equal(begins, call_count);
	assert_int_equal(submitted_count - first, 20);
	int wrapped = 0;
	for (unsigned i = 0; i < 20; i++) {
		const struct sim_call *call = &calls[first_call + i];
		const struct sim_operation *launched = &submitted[first + i];
		assert_string_equal(call->name, "cuLaunchKernel");
		assert_true(call->start <= call->end && call->domain == SIM_DRIVER && call->context == 1);
		assert_int_equal(call->correlation, launched->correlation);
		assert_int_not_equal(call->correlation, 0);
		wrapped |= i && call->correlation < calls[first_call + i - 1].correlation;
		const struct sim_operation *done = finished_by_correlation(call->correlation);
		assert_non_null(done);
		assert_int_equal(done->id, launched->id);
		assert_string_equal(done->name, "empty");
		assert_int_equal(done->end - done->start, 1000);
		assert_true(done->start >= call->start);
		assert_true(done->grid[1] == 2 && done->grid[2] == 3 && done->block[1] == 2 &&
			    done->dynamic_shared == 16);
		assert_int_equal(done->stream, 7);
	}
	assert_true(wrapped || calls[0].correlation > 4000000000u);
	const struct sim_operation *sync = last_finished(SIM_SYNC, 1);
	assert_int_equal(sync->sync_type, 4);
	assert_int_equal(sync->correlation, calls[call_count - 1].correlation);
	assert_int_equal(cuLaunchKernel(empty, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel((CUfunction)&before, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(calls[call_count - 1].result, CUDA_ERROR_INVALID_HANDLE);
}

static void test_time(void **state)
{
	CUstream stream;
	CUevent start, end;
	float milliseconds;
	(void)state;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&start, 0));
	OK(cuEventCreate(&end, 0));
	uint64_t begin = now();
	OK(cuEventRecord(start, stream));
	for (int i = 0; i < 3; i++)
		launch_spin(stream, 3000000);
	OK(cuEventRecord(end, stream));
	assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	assert_int_equal(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
	OK(cuEventSynchronize(end));
	assert_true(now() - begin >= 9000000);
	OK(cuStreamQuery(stream));
	OK(cuEventElapsedTime(&milliseconds, start, end));
	assert_true(milliseconds >= 9.0f && milliseconds < 12.0f);
	const struct sim_operation *spins = last_finished(SIM_KERNEL, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(spins[i].end - spins[i].start, 3000000);
		assert_true(i == 0 || spins[i].start == spins[i - 1].end);
	}
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &(uint64_t){1500000}, CU_LAUNCH_PARAM_BUFFER_SIZE,
			 &(size_t){8}, CU_LAUNCH_PARAM_END};
	OK(cuLaunchKernel(mangled, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
	OK(cuStreamSynchronize(stream));
	spins = last_finished(SIM_KERNEL, 1);
	assert_int_equal(spins->end - spins->start, 1500000);
	size_t offset, size;
	OK(cuFuncGetParamInfo(mangled, 1, &offset, &size));
	assert_true(offset == 8 && size == 24);
	OK(cuFuncGetParamInfo(mangled, 2, &offset, &size));
	assert_true(offset == 32 && size == 4);
	assert_int_equal(cuFuncGetParamInfo(mangled, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
	OK(cuEventDestroy_v2(start));
	OK(cuEventDestroy_v2(end));
	OK(cuStreamDestroy_v2(stream));
	assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuEventQuery(end), CUDA_ERROR_INVALID_HANDLE);
}

static void test_default_stream(void **state)
{
	CUstream blocking, other;
	(void)state;
	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	launch_spin(blocking, 4000000);
	launch_spin(NULL, 1000000);
	launch_spin(blocking, 1000001);
	launch_spin(other, 1);
	OK(cuCtxSynchronize());
	const struct sim_operation *spins = last_finished(SIM_KERNEL, 4), *a = NULL, *middle = NULL, *b = NULL,
				   *free_one = NULL;
	for (int i = 0; i < 4; i++)
		switch (spins[i].end - spins[i].start) {
		case 4000000:
			a = &spins[i];
			break;
		case 1000000:
			middle = &spins[i];
			break;
		case 1000001:
			b = &spins[i];
			break;
		default:
			free_one = &spins[i];
		}
	assert_true(middle->start >= a->end);
	assert_true(b->start >= middle->end);
	assert_true(free_one->end < middle->end);
	OK(cuStreamDestroy_v2(blocking));
	OK(cuStreamDestroy_v2(other));
}

static void test_wait_event(void **state)
{
	CUstream first, second;
	CUevent event;
	(void)state;
	OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreateWithPriority(&second, CU_STREAM_NON_BLOCKING, -9));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	launch_spin(first, 4000000);
	OK(cuEventRecord(event, first));
	OK(cuStreamWaitEvent(second, event, 0));
	launch_spin(second, 1000);
	OK(cuStreamSynchronize(second));
	const struct sim_operation *spins = last_finished(SIM_KERNEL, 2);
	assert_true(spins[1].start >= spins[0].end);
	assert_int_equal(spins[1].priority, -5);
	assert_int_equal(last_finished(SIM_SYNC, 2)[0].sync_type, 2);
	assert_int_equal(last_finished(SIM_SYNC, 1)->sync_type, 3);
	OK(cuStreamDestroy_v2(first));
	OK(cuStreamDestroy_v2(second));
	OK(cuEventDestroy_v2(event));
}

static void test_copies_and_sets(void **state)
{
	enum { N = 256 };
	unsigned from[N], to[N];
	CUdeviceptr a, b;
	(void)state;
	for (unsigned i = 0; i < N; i++)
		from[i] = i * 3;
	OK(cuMemAlloc_v2(&a, sizeof from));
	OK(cuMemAlloc_v2(&b, 4 << 20));
	OK(cuMemcpyHtoDAsync_v2(a, from, sizeof from, NULL));
	memset(from, 0xff, sizeof from); /* it was pageable: read at the call */
	OK(cuMemcpyDtoDAsync_v2(b, a, sizeof from, NULL));
	OK(cuMemcpyDtoH_v2(to, b, sizeof to));
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(to[i], i * 3);
	const struct sim_operation *copies = last_finished(SIM_COPY, 3);
	static const uint8_t kinds[3] = {1, 8, 2}, sources[3] = {1, 3, 3}, targets[3] = {3, 3, 1};
	for (int i = 0; i < 3; i++) {
		assert_int_equal(copies[i].copy_kind, kinds[i]);
		assert_int_equal(copies[i].source_kind, sources[i]);
		assert_int_equal(copies[i].target_kind, targets[i]);
		assert_int_equal(copies[i].bytes, sizeof from);
		assert_int_equal(copies[i].asynchronous, i < 2);
	}
	OK(cuMemsetD16_v2(a, 0x1234, N));
	OK(cuMemsetD2D8_v2(a, 64, 0x55, 8, 2));
	OK(cuMemcpyDtoH_v2(to, a, sizeof to));
	assert_int_equal(to[0], 0x55555555);
	assert_int_equal(to[2], 0x12341234);
	assert_int_equal(to[16], 0x55555555);
	assert_int_equal(last_finished(SIM_SET, 2)[0].bytes, 2 * N);
	assert_int_equal(last_finished(SIM_SET, 1)->value, 0x55);
	CUDA_MEMCPY2D two = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			     .srcHost = to,
			     .srcPitch = 64,
			     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			     .dstDevice = b,
			     .dstPitch = 128,
			     .WidthInBytes = 8,
			     .Height = 2};
	OK(cuMemcpy2D_v2(&two));
	OK(cuMemcpyDtoH_v2(to, b + 128, 8));
	assert_int_equal(to[0], 0x55555555);
	assert_int_equal(cuMemcpyHtoD_v2((CUdeviceptr)to, from, 8), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD8_v2((CUdeviceptr)to, 1, 8), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(a));
	OK(cuMemFree_v2(b));
	assert_int_equal(cuMemFree_v2(b), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemAlloc_v2(&a, (size_t)81 << 30), CUDA_ERROR_OUT_OF_MEMORY);
}

static void test_peer(void **state)
{
	CUcontext second;
	CUdeviceptr here, there;
	unsigned value = 0;
	(void)state;
	OK(cuCtxCreate_v2(&second, 0, 1));
	OK(cuMemAlloc_v2(&there, 4096));
	OK(cuMemsetD32_v2(there, 77, 1024));
	OK(cuCtxSynchronize());
	OK(cuCtxPopCurrent_v2(NULL));
	OK(cuMemAlloc_v2(&here, 4096));
	OK(cuMemcpyPeer(here, context, there, second, 4096));
	OK(cuMemcpyDtoH_v2(&value, here, 4));
	assert_int_equal(value, 77);
	const struct sim_operation *copy = last_finished(SIM_PEER_COPY, 1);
	assert_true(copy->copy_kind == 10 && copy->source_device == 1 && copy->target_device == 0 && copy->device == 0);
	assert_int_not_equal(copy->source_context, copy->target_context);
	OK(cuMemFree_v2(here));
	unsigned gone = contexts_gone;
	OK(cuCtxDestroy_v2(second));
	assert_int_equal(contexts_gone, gone + 1);
	assert_int_equal(cuCtxSetCurrent(second), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuMemcpyPeer(here, context, there, second, 4096), CUDA_ERROR_INVALID_CONTEXT);
}

/* Taken, mapped where addresses were reserved, written and given back. */
static void test_mapped_memory(void **state)
{
	const size_t bytes = 2 << 20;
	const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
						.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	const CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	unsigned value = 0;
	size_t before, during, after, all;
	(void)state;
	OK(cuMemGetInfo_v2(&before, &all));
	OK(cuMemAddressReserve(&at, 2 * bytes, 0, 0, 0));
	OK(cuMemCreate(&handle, bytes, &properties, 0));
	assert_int_equal(cuMemMap(at, bytes, bytes, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemSetAccess(at, bytes, &access, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemMap(at, bytes, 0, handle, 0));
	OK(cuMemSetAccess(at, bytes, &access, 1));
	OK(cuMemsetD32_v2(at, 77, 1024));
	OK(cuMemcpyDtoH_v2(&value, at, 4));
	assert_int_equal(value, 77);
	OK(cuMemGetInfo_v2(&during, &all));
	assert_int_equal(before - during, bytes);
	OK(cuMemUnmap(at, bytes));
	assert_int_equal(cuMemUnmap(at, bytes), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemRelease(handle));
	OK(cuMemAddressFree(at, 2 * bytes));
	OK(cuMemGetInfo_v2(&after, &all));
	assert_int_equal(after, before);
	assert_int_equal(cuMemCreate(&handle, (size_t)81 << 30, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

static void test_memory(void **state)
{
	CUdeviceptr at, pooled;
	void *pinned;
	unsigned type;
	(void)state;
	unsigned first = memory_count;
	OK(cuMemAllocManaged(&at, 1000, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemHostAlloc(&pinned, 2000, 0));
	OK(cuMemAllocAsync(&pooled, 3000, NULL));
	OK(cuMemFreeAsync(pooled, NULL));
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)pinned + 5));
	assert_int_equal(type, CU_MEMORYTYPE_HOST);
	OK(cuMemFree_v2(at));
	OK(cuMemFreeHost(pinned));
	assert_int_equal(memory_count - first, 6);
	const struct sim_memory *m = &memories[first];
	assert_true(m[0].allocated && m[0].memory_kind == 5 && m[0].bytes == 1000 && m[0].address == at);
	assert_true(m[1].allocated && m[1].memory_kind == 2);
	assert_true(m[2].allocated && m[2].memory_kind == 3 && m[2].pooled && m[2].pool && m[2].pool_utilized == 3000);
	assert_true(m[2].stream == 7 && m[2].pool_size >= m[2].pool_utilized);
	assert_true(!m[3].allocated && m[3].address == pooled);
	assert_true(!m[4].allocated && !m[5].allocated);
}

static void test_hints(void **state)
{
	(void)state;
	uint64_t at = now();
	struct simcuda_hint late = {.bytes = sizeof late,
				    .device = 3,
				    .context = 9,
				    .has_stream = 1,
				    .stream = 70,
				    .correlation = 4711,
				    .start = at + 1000000000,
				    .end = at + 1010000000,
				    .grid = {5, 0, 0},
				    .registers = 99,
				    .graph = 4,
				    .graph_node = 8};
	struct simcuda_hint past = {.bytes = sizeof past, .start = 1000, .end = 2000, .correlation = 4712};
	char name[] = "as recorded";
	late.name = name;
	simcuda_hint(&late);
	simcuda_hint(&past);
	name[0] = 0; /* both were copied */
	unsigned before = finished_so_far();
	OK(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	OK(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	while (now() < at + 900000000 && finished_so_far() == before)
		usleep(100);
	assert_int_equal(finished_so_far(), before + 1); /* the one of the past, at once */
	assert_int_equal(finished[before].correlation, 4712);
	assert_true(finished[before].start == 1000 && finished[before].end == 2000);
	assert_int_equal(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	OK(cuStreamSynchronize(NULL));
	assert_true(now() >= at + 1010000000);
	const struct sim_operation *done = finished_by_correlation(4711);
	assert_non_null(done);
	assert_true(done->start == late.start && done->end == late.end && done->device == 3 && done->context == 9);
	assert_true(done->stream == 70 && done->grid[0] == 5 && done->grid[1] == 1 && done->registers == 99);
	assert_true(done->graph == 4 && done->graph_node == 8 && done->queued == 0);
	assert_string_equal(done->name, "as recorded");
}

static void test_runtime(void **state)
{
	(void)state;
	unsigned first = call_count;
	simcuda_runtime_enter("cudaLaunchKernel", 0, 0);
	OK(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	simcuda_runtime_leave(0, 0);
	simcuda_runtime_enter("cudaMemcpyAsync", 555, 100);
	simcuda_runtime_leave(2, 200);
	OK(cuCtxSynchronize());
	assert_int_equal(calls[first].domain, SIM_DRIVER);
	assert_int_equal(calls[first + 1].domain, SIM_RUNTIME);
	assert_int_equal(calls[first].correlation, calls[first + 1].correlation);
	assert_non_null(finished_by_correlation(calls[first].correlation));
	assert_true(calls[first + 1].start <= calls[first].start && calls[first + 1].end >= calls[first].end);
	const struct sim_call *said = &calls[first + 2];
	assert_true(said->correlation == 555 && said->start == 100 && said->end == 200 && said->result == 2);
	assert_string_equal(said->name, "cudaMemcpyAsync");
}

static void count_call(void *data)
{
	__atomic_add_fetch((int *)data, 1, __ATOMIC_RELAXED);
}

static void test_graphs(void **state)
{
	CUstream first, second;
	CUevent fork_event, join;
	CUgraph graph, child;
	CUgraphExec executable;
	CUgraphNode node;
	CUdeviceptr memory;
	int host_calls = 0;
	uint64_t ns = 1000000;
	void *parameters[] = {&ns};
	(void)state;
	OK(cuMemAlloc_v2(&memory, 4096));
	OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&fork_event, 0));
	OK(cuEventCreate(&join, 0));
	unsigned before = submitted_count;
	OK(cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
	assert_int_equal(cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
	launch_spin(first, 1000000);
	OK(cuEventRecord(fork_event, first));
	OK(cuStreamWaitEvent(second, fork_event, 0));
	OK(cuMemsetD8Async(memory, 9, 4096, second));
	OK(cuEventRecord(join, second));
	launch_spin(first, 1000);
	OK(cuStreamWaitEvent(first, join, 0));
	OK(cuMemcpyDtoDAsync_v2(memory + 2048, memory, 1024, first));
	OK(cuLaunchHostFunc(first, count_call, &host_calls));
	assert_int_equal(cuStreamSynchronize(first), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(cuStreamEndCapture(second, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	OK(cuStreamEndCapture(first, &graph));
	assert_int_equal(submitted_count, before);
	OK(cuGraphCreate(&child, 0));
	CUDA_KERNEL_NODE_PARAMS kernel = {.func = spin,
					  .gridDimX = 1,
					  .gridDimY = 1,
					  .gridDimZ = 1,
					  .blockDimX = 1,
					  .blockDimY = 1,
					  .blockDimZ = 1,
					  .kernelParams = parameters};
	OK(cuGraphAddKernelNode_v2(&node, child, NULL, 0, &kernel));
	OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	OK(cuGraphDestroy(child));
	OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
	OK(cuGraphDestroy(graph));
	unsigned call = call_count;
	OK(cuGraphLaunch(executable, first));
	OK(cuGraphLaunch(executable, first));
	OK(cuStreamSynchronize(first));
	assert_int_equal(__atomic_load_n(&host_calls, __ATOMIC_RELAXED), 2);
	assert_int_equal(submitted_count - before, 10);
	for (unsigned l = 0; l < 2; l++)
		for (unsigned i = 0; i < 5; i++) {
			const struct sim_operation *o = &submitted[before + l * 5 + i];
			assert_int_equal(o->correlation, calls[call + l].correlation);
			assert_int_equal(o->graph_launch, submitted[before + l * 5].graph_launch);
			assert_int_equal(o->graph, submitted[before].graph);
			assert_int_equal(o->graph_node, submitted[before + i].graph_node);
			for (unsigned j = 0; j < i; j++)
				assert_int_not_equal(o->graph_node, submitted[before + l * 5 + j].graph_node);
		}
	assert_int_not_equal(submitted[before].graph_launch, submitted[before + 5].graph_launch);
	uint64_t copied = last_finished(SIM_COPY, 1)->start;
	assert_true(copied >= last_finished(SIM_SET, 1)->end);
	OK(cuGraphExecDestroy(executable));
	OK(cuEventDestroy_v2(fork_event));
	OK(cuEventDestroy_v2(join));
	OK(cuStreamDestroy_v2(first));
	OK(cuStreamDestroy_v2(second));
	OK(cuMemFree_v2(memory));
}

static void test_proc_address(void **state)
{
	void *function;
	CUdriverProcAddressQueryResult status;
	(void)state;
	OK(cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, &status));
	assert_ptr_equal(function, cuMemAlloc_v2);
	OK(cuGetProcAddress_v2("cuCtxCreate", &function, 11000, 0, &status));
	assert_ptr_equal(function, cuCtxCreate_v2);
	OK(cuGetProcAddress_v2("cuCtxCreate", &function, 13000, 0, &status));
	assert_ptr_equal(function, cuCtxCreate_v4);
	OK(cuGetProcAddress_v2("cuLaunchKernel", &function, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
			       &status));
	assert_ptr_equal(function, cuLaunchKernel_ptsz);
	assert_int_equal(cuGetProcAddress_v2("cuNothing", &function, 12000, 0, &status), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	unsigned first = call_count;
	OK(cuLaunchKernel_ptsz(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	OK(cuStreamSynchronize_ptsz(NULL));
	assert_string_equal(calls[first].name, "cuLaunchKernel");
	assert_string_equal(calls[first].symbol, "cuLaunchKernel_ptsz");
	assert_int_not_equal(last_finished(SIM_KERNEL, 1)->stream, 7);
}

static void test_fork(void **state)
{
	int status;
	(void)state;
	launch_spin(NULL, 5000000);
	pid_t child = fork();
	if (child == 0) {
		CUdevice device;
		_exit(cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
				      cuDeviceGet(&device, 0) == CUDA_ERROR_NOT_INITIALIZED
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	OK(cuCtxSynchronize());
}

static unsigned devices_seen;

static void on_device(const struct sim_device *device)
{
	assert_int_equal(device->id, devices_seen++);
}

static void test_dump_and_reset(void **state)
{
	(void)state;
	unsigned made = contexts_made, streams = streams_made;
	simcuda_dump(on_device);
	assert_int_equal(devices_seen, 2);
	assert_int_equal(contexts_made, made + 1);
	assert_true(streams_made > streams);
	launch_spin(NULL, 5000000);
	unsigned before = finished_so_far();
	OK(cuDevicePrimaryCtxReset_v2(0));
	assert_int_equal(finished_so_far(), before + 1);
	assert_int_equal(exits, 0); /* the driver stays */
	assert_true(modules_gone > 0 && modules_gone <= modules_made);
	assert_int_equal(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_CONTEXT);
	context = NULL;
	setup(NULL);
	launch_spin(NULL, 1000);
	OK(cuCtxSynchronize());
	assert_true(last_finished(SIM_KERNEL, 1)->context > 1);
}

/* ---- with other scripts: in a process of its own, which this program is started as once more */

static int fatal_process(void)
{
	CUcontext own;
	CUresult last = CUDA_SUCCESS;
	int n = 0;
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&own, 0) || cuCtxSetCurrent(own))
		return 1;
	load_functions();
	while (last == CUDA_SUCCESS && n++ < 10)
		last = cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	return n == 3 && last == CUDA_ERROR_LAUNCH_FAILED && cuCtxSynchronize() == CUDA_ERROR_LAUNCH_FAILED ? 0 : 2;
}

static int trap_process(void)
{
	CUcontext own;
	CUmodule module;
	CUfunction trap;
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&own, 0) || cuCtxSetCurrent(own) ||
	    cuModuleLoadData(&module, image) || cuModuleGetFunction(&trap, module, "trap") ||
	    cuLaunchKernel(trap, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL))
		return 1;
	for (int i = 0; i < 1000; i++, usleep(1000))
		if (cuCtxSynchronize() == CUDA_ERROR_LAUNCH_FAILED)
			return 0;
	return 2;
}

static int no_device_process(void)
{
	CUdevice device;
	int version;
	if (cuInit(0) != CUDA_ERROR_NO_DEVICE || cuDeviceGet(&device, 0) != CUDA_ERROR_NOT_INITIALIZED)
		return 1;
	return cuDriverGetVersion(&version) == CUDA_SUCCESS && version == 12040 && !getenv("INJECTED") ? 0 : 2;
}

static const struct {
	const char *name, *script;
	int (*run)(void);
} processes[] = {
	{"fatal", "fatal=3", fatal_process},
	{"trap", "empty=1us", trap_process},
	{"no_device", "no_device,driver=12.4", no_device_process},
};

static void test_processes(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof processes / sizeof *processes; i++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			setenv("SIMCUDA", processes[i].script, 1);
			unsetenv("INJECTED");
			execl("/proc/self/exe", "test_sim_cuda", processes[i].name, (char *)NULL);
			_exit(126);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
}

int main(int argc, char **argv)
{
	for (unsigned i = 0; argc > 1 && i < sizeof processes / sizeof *processes; i++)
		if (strcmp(argv[1], processes[i].name) == 0)
			return processes[i].run();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_before_init),
		cmocka_unit_test_setup(test_devices, setup),
		cmocka_unit_test_setup(test_calls_and_operations, setup),
		cmocka_unit_test_setup(test_time, setup),
		cmocka_unit_test_setup(test_default_stream, setup),
		cmocka_unit_test_setup(test_wait_event, setup),
		cmocka_unit_test_setup(test_copies_and_sets, setup),
		cmocka_unit_test_setup(test_peer, setup),
		cmocka_unit_test_setup(test_memory, setup),
		cmocka_unit_test_setup(test_mapped_memory, setup),
		cmocka_unit_test_setup(test_hints, setup),
		cmocka_unit_test_setup(test_runtime, setup),
		cmocka_unit_test_setup(test_graphs, setup),
		cmocka_unit_test_setup(test_proc_address, setup),
		cmocka_unit_test_setup(test_fork, setup),
		cmocka_unit_test_setup(test_dump_and_reset, setup),
		cmocka_unit_test_setup(test_processes, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
