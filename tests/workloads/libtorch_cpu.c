/* libtorch_cpu.c - a stand-in for torch where a test needs to stop inside it: the functions that the agent calls, with the layouts
 * that it proves, and callbacks for user ranges. It computes nothing. A call into it after its end, or still under
 * way then, is complained of on stderr, as torch does.
 *
 * TORCH_STOP_AT=N: the N-th call from a thread of the agent's takes 30 ms, and torch_stopped() is true from its beginning. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

struct callback {
	void *(*start)(void **to, const void *function);
	void (*end)(const void *function, void *context);
	double sampling;
	uint8_t scopes[10];
	uint8_t needs_inputs, needs_outputs, needs_ids;
};

#define CALLBACKS 16
struct entry {
	uint64_t handle;
	struct callback callback;
};

struct value {
	union {
		const void *pointer;
		int64_t integer;
		double real;
	};
	uint32_t tag, padding;
};
enum { TAG_NONE = 0, TAG_TENSOR = 1, TAG_DOUBLE = 2, TAG_INT = 4, TAG_BOOL = 6, TAG_LIST = 8 };

/* c10::TensorImpl */
struct tensor {
	unsigned char before[64];
	uint64_t rank;
	int64_t shape[10]; /* sizes and strides, or the address of both */
	unsigned char between[8];
	int64_t numel;
	uint16_t dtype;
	int8_t device[4];
	uint8_t flags[2];
	int64_t beyond[16];
};
_Static_assert(__builtin_offsetof(struct tensor, numel) == 64 + 96, "c10::TensorImpl");

/* at::RecordFunction */
struct function {
	const char *name;
	unsigned char a[80];
	uint64_t thread;
	uint8_t scope;
	unsigned char b[95];
	uint8_t index, c[7];
	int64_t sequence;
	const struct value *inputs;
	uint64_t input_count;
	unsigned char d[80];
	uint64_t forward, handle;
	uint8_t is_async, e[7];
};
_Static_assert(__builtin_offsetof(struct function, sequence) == 200, "at::RecordFunction");
_Static_assert(__builtin_offsetof(struct function, forward) == 304, "at::RecordFunction");

struct list {
	const void *a[2];
	const struct value *begin, *end;
	const void *b, *type;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry callbacks[CALLBACKS];
static __thread struct entry own;
static __thread int64_t sequence;
static __thread uint64_t thread_number;
static _Atomic uint64_t handles, threads;
static _Atomic int gone, stopped;
static _Atomic long calls;

int torch_stopped(void);
long torch_calls(void);
void torch_range(const char *name);

int torch_stopped(void)
{
	return atomic_load(&stopped);
}

long torch_calls(void)
{
	return atomic_load(&calls);
}

static void complain(const char *what)
{
	if (atomic_load(&gone))
		fprintf(stderr, "torch: %s\n", what);
}

static void ends(void)
{
	atomic_store(&gone, 1);
}

/* As C++ does for static objects: before the destructors of any library. */
static void __attribute__((constructor)) begins(void)
{
	atexit(ends);
}

static void called(void)
{
	char name[16] = "";
	const char *at = getenv("TORCH_STOP_AT");
	complain("called after its end");
	/* As torch has its own, which nobody makes whole in a child (libinside.c). */
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	if (prctl(PR_GET_NAME, name) != 0 || strncmp(name, "profd", 5) != 0)
		return;
	if (atomic_fetch_add(&calls, 1) + 1 != (at ? strtol(at, NULL, 10) : 0))
		return;
	struct timespec time = {0, 30000000};
	atomic_store(&stopped, 1);
	nanosleep(&time, NULL);
	complain("ended in mid-call");
}

/* ---------------------------------------------------------------- callbacks */

uint64_t _ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE(struct callback callback);
uint64_t _ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE(struct callback callback)
{
	uint64_t handle = 0;
	called();
	pthread_mutex_lock(&lock);
	for (int i = 0; i < CALLBACKS && !handle; i++)
		if (!callbacks[i].handle)
			callbacks[i] = (struct entry){handle = atomic_fetch_add(&handles, 1) + 1, callback};
	pthread_mutex_unlock(&lock);
	return handle;
}

uint64_t _ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE(struct callback callback);
uint64_t _ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE(struct callback callback)
{
	called();
	own = (struct entry){atomic_fetch_add(&handles, 1) + 1, callback};
	return own.handle;
}

void _ZN2at14removeCallbackEm(uint64_t handle);
void _ZN2at14removeCallbackEm(uint64_t handle)
{
	called();
	complain("Requested callback is not found");
	pthread_mutex_lock(&lock);
	if (own.handle == handle)
		own.handle = 0;
	for (int i = 0; i < CALLBACKS; i++)
		if (callbacks[i].handle == handle)
			callbacks[i].handle = 0;
	pthread_mutex_unlock(&lock);
}

const char *_ZNK2at14RecordFunction4nameEv(const struct function *function);
const char *_ZNK2at14RecordFunction4nameEv(const struct function *function)
{
	return function->name;
}

uint8_t _ZN5torch8autograd8profiler29isProfilerEnabledInMainThreadEv(void);
uint8_t _ZN5torch8autograd8profiler29isProfilerEnabledInMainThreadEv(void)
{
	called();
	return 0;
}

uint64_t _ZN2at14RecordFunction15currentThreadIdEv(void);
uint64_t _ZN2at14RecordFunction15currentThreadIdEv(void)
{
	if (!thread_number)
		thread_number = atomic_fetch_add(&threads, 1) + 1;
	return thread_number;
}

/* A user range that begins and ends. */
void torch_range(const char *name)
{
	struct entry copy[CALLBACKS];
	struct function function = {.name = name, .scope = 7, .handle = 1};
	void *contexts[CALLBACKS] = {NULL};
	function.thread = _ZN2at14RecordFunction15currentThreadIdEv();
	pthread_mutex_lock(&lock);
	memcpy(copy, callbacks, sizeof copy);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < CALLBACKS; i++)
		if (copy[i].handle && copy[i].callback.scopes[7])
			copy[i].callback.start(&contexts[i], &function);
	for (int i = CALLBACKS; i-- > 0;)
		if (copy[i].handle && copy[i].callback.scopes[7])
			copy[i].callback.end(&function, contexts[i]);
}

static void operator(const char *name, const struct value *inputs, uint64_t count)
{
	struct function function = {.name = name, .index = 1, .sequence = sequence, .handle = 1, .inputs = inputs};
	void *context = NULL;
	function.input_count = count;
	function.thread = _ZN2at14RecordFunction15currentThreadIdEv();
	if (!own.handle)
		return;
	own.callback.start(&context, &function);
	own.callback.end(&function, context);
}

/* ---------------------------------------------------------------- what calibration asks */

uint64_t _ZN2at15sequence_number17get_and_incrementEv(void);
uint64_t _ZN2at15sequence_number17get_and_incrementEv(void)
{
	return (uint64_t)sequence++;
}

int64_t _ZN2at15sequence_number4peekEv(void);
int64_t _ZN2at15sequence_number4peekEv(void)
{
	called();
	return sequence;
}

const void *const _ZTVN3c107IntTypeE[4], *const _ZTVN3c1010TensorTypeE[4];
static const void *const int_object = &_ZTVN3c107IntTypeE[2], *const tensor_object = &_ZTVN3c1010TensorTypeE[2];

const void *_ZN3c107IntType3getEv(void *buffer);
const void *_ZN3c107IntType3getEv(void *buffer)
{
	(void)buffer;
	called();
	return &int_object;
}

const void *_ZN3c1010TensorType3getEv(void *buffer);
const void *_ZN3c1010TensorType3getEv(void *buffer)
{
	(void)buffer;
	called();
	return &tensor_object;
}

int32_t aoti_torch_dtype_float64(void);
int32_t aoti_torch_dtype_float64(void)
{
	return 7;
}

int32_t aoti_torch_device_type_cpu(void);
int32_t aoti_torch_device_type_cpu(void)
{
	return 0;
}

int32_t aoti_torch_empty_strided(int64_t rank, const int64_t *sizes, const int64_t *strides, int32_t dtype,
				 int32_t device, int32_t index, void **ret);
int32_t aoti_torch_empty_strided(int64_t rank, const int64_t *sizes, const int64_t *strides, int32_t dtype,
				 int32_t device, int32_t index, void **ret)
{
	struct {
		struct tensor *handle;
		struct tensor tensor;
	} *made = calloc(1, sizeof *made);
	(void)device, (void)index;
	called();
	if (!made)
		return 1;
	struct tensor *t = made->handle = &made->tensor;
	int64_t *at = rank > 5 ? t->beyond : t->shape, *at_strides = rank > 5 ? at + rank : at + 5;
	t->rank = (uint64_t)rank;
	t->numel = 1;
	for (int64_t i = 0; i < rank; i++) {
		at[i] = sizes[i];
		at_strides[i] = strides[i];
		t->numel *= sizes[i];
	}
	if (rank > 5)
		memcpy(t->shape, &at, sizeof at);
	t->dtype = (uint16_t)dtype;
	t->device[2] = 1;
	*ret = made;
	return 0;
}

int32_t aoti_torch_delete_tensor_object(void *handle);
int32_t aoti_torch_delete_tensor_object(void *handle)
{
	called();
	free(handle);
	return 0;
}

static struct tensor *tensor_of(void *handle)
{
	return *(struct tensor **)handle;
}

int32_t aoti_torch_get_sizes(void *handle, int64_t **ret);
int32_t aoti_torch_get_sizes(void *handle, int64_t **ret)
{
	called();
	*ret = tensor_of(handle)->rank > 5 ? tensor_of(handle)->beyond : tensor_of(handle)->shape;
	return 0;
}

int32_t aoti_torch_get_strides(void *handle, int64_t **ret);
int32_t aoti_torch_get_strides(void *handle, int64_t **ret)
{
	struct tensor *t = tensor_of(handle);
	called();
	*ret = t->rank > 5 ? t->beyond + t->rank : t->shape + 5;
	return 0;
}

static struct list make_list(struct value *values, const int64_t *from, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		values[i] = (struct value){.integer = from[i], .tag = TAG_INT};
	return (struct list){.begin = values, .end = values + count, .type = &int_object};
}

int32_t aoti_torch_convolution(void *input, void *weight, void *bias, const int64_t *stride, int64_t n_stride,
			       const int64_t *padding, int64_t n_padding, const int64_t *dilation, int64_t n_dilation,
			       int32_t transposed, const int64_t *output_padding, int64_t n_output_padding,
			       int64_t groups, void **ret);
int32_t aoti_torch_convolution(void *input, void *weight, void *bias, const int64_t *stride, int64_t n_stride,
			       const int64_t *padding, int64_t n_padding, const int64_t *dilation, int64_t n_dilation,
			       int32_t transposed, const int64_t *output_padding, int64_t n_output_padding,
			       int64_t groups, void **ret)
{
	struct value values[4][4];
	struct list lists[4] = {make_list(values[0], stride, n_stride), make_list(values[1], padding, n_padding),
				make_list(values[2], dilation, n_dilation),
				make_list(values[3], output_padding, n_output_padding)};
	struct value inputs[9] = {
		{.pointer = tensor_of(input), .tag = TAG_TENSOR},
		{.pointer = tensor_of(weight), .tag = TAG_TENSOR},
		{.pointer = NULL, .tag = TAG_NONE},
		{.pointer = &lists[0], .tag = TAG_LIST},
		{.pointer = &lists[1], .tag = TAG_LIST},
		{.pointer = &lists[2], .tag = TAG_LIST},
		{.integer = transposed, .tag = TAG_BOOL},
		{.pointer = &lists[3], .tag = TAG_LIST},
		{.integer = groups, .tag = TAG_INT},
	};
	(void)bias;
	called();
	operator("aten::convolution", inputs, 9);
	return aoti_torch_empty_strided(2, stride, padding, 7, 0, 0, ret);
}

int32_t aoti_torch_addmm_out(void *out, void *self, void *left, void *right, float beta, float alpha);
int32_t aoti_torch_addmm_out(void *out, void *self, void *left, void *right, float beta, float alpha)
{
	struct value inputs[6] = {
		{.pointer = tensor_of(self), .tag = TAG_TENSOR},  {.pointer = tensor_of(left), .tag = TAG_TENSOR},
		{.pointer = tensor_of(right), .tag = TAG_TENSOR}, {.real = (double)beta, .tag = TAG_DOUBLE},
		{.real = (double)alpha, .tag = TAG_DOUBLE},	  {.pointer = tensor_of(out), .tag = TAG_TENSOR},
	};
	called();
	operator("aten::addmm", inputs, 6);
	return 0;
}
