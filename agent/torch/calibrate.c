/* calibrate.c - finds the offsets of fields in this torch's at::RecordFunction, IValues and tensors, and proves them.
 * It calls two operators on probe tensors with known sizes, strides and arguments, and must read back every one of
 * them. Offsets that cannot be proved are not used.
 *
 * Runs once, on a private thread with all signals blocked, so that no other thread shares its sequence numbers and
 * thread-local callback. The operators compute nearly nothing: a convolution of an empty batch, and a 2x2 addmm. No
 * thread pool wakes, no random number is drawn. */
#include "../core/gate.h"
#include "../core/sentence.h"
#include "../core/thread.h"
#include "internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct torch_offsets torch_offsets;

#define CALIBRATION_STACK (4u << 20)
/* The thread's sequence number is raised by this, so that it is not near 0. */
#define CALIBRATION_SEQUENCE 77
/* at::RecordFunction: offsets of thread id and scope in all versions since 2.4, and the range in which the sequence
 * number lies. It follows fn_, whose size depends on that of std::string. */
#define FUNCTION_THREAD 88
#define FUNCTION_SCOPE 96
#define FUNCTION_SEQUENCE_FIRST 168
#define FUNCTION_SEQUENCE_LAST 248
/* From the sequence number on: inputs {pointer, count}, outputs, operator name, forward thread, handle, is_async. */
#define SEQUENCE_INPUTS 8
#define SEQUENCE_FORWARD 104
#define SEQUENCE_HANDLE 112
#define SEQUENCE_ASYNC 120
/* TensorImpl: sizes_and_strides_ lies in this range; the other fields follow it. */
#define TENSOR_SIZES_FIRST 40
#define TENSOR_SIZES_LAST 96
#define SIZES_NUMEL 96
#define SIZES_DTYPE 104
#define SIZES_DEVICE 106
#define SIZES_FLAGS 110
#define FLAGS_KNOWN 0x1c

#define HEAP_RANK 7
static const int64_t input_sizes[4] = {0, 6, 13, 17}, input_strides[4] = {1326, 221, 17, 1};
static const int64_t weight_sizes[4] = {3, 2, 1, 1}, weight_strides[4] = {2, 1, 1, 1};
static const int64_t heap_sizes[HEAP_RANK] = {2, 1, 3, 1, 1, 2, 1}, heap_strides[HEAP_RANK] = {6, 6, 2, 2, 2, 1, 1};
static const int64_t stride[2] = {2, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
#define GROUPS 3
#define BETA 0.25
#define ALPHA 0.5

static struct {
	void *input, *weight, *heap, *out, *left, *right; /* at::Tensor * */
	int64_t sequence;
	const char *failure;
	int convolution_seen, addmm_seen;
	const void *int_type;
} probe;

/* The TensorImpl of a handle. */
static const void *impl_of(void *handle)
{
	return *(const void *const *)handle;
}

/* A singleton type's address from its C++ get(). Depending on the type and the version get() returns it by value, or a
 * reference to a pointer; the object's vtable shows which. NULL where neither fits. */
static const void *type_of(void *(*get)(void *), const void *vtable)
{
	void *buffer[2] = {NULL, NULL};
	const void *first = (const char *)vtable + 2 * sizeof(void *);
	const void *const *returned = get(buffer);
	if (!returned || *returned == first)
		return returned;
	const void *const *behind = *returned;
	return behind && *behind == first ? behind : NULL;
}

static int list_is(const struct torch_value *value, const int64_t *wanted, size_t count)
{
	const struct torch_value *begin = TORCH_AT(const struct torch_value *, value->pointer, TORCH_LIST_BEGIN);
	const struct torch_value *end = TORCH_AT(const struct torch_value *, value->pointer, TORCH_LIST_END);
	if ((size_t)(end - begin) != count)
		return 0;
	for (size_t i = 0; i < count; i++)
		if (begin[i].tag != torch_offsets.tag_int || begin[i].integer != wanted[i])
			return 0;
	return TORCH_AT(const void *, value->pointer, TORCH_LIST_ELEMENT_TYPE) == probe.int_type;
}

/* at::RecordFunction of the convolution, then its nine arguments: input, weight, bias, stride, padding, dilation,
 * transposed, output_padding, groups. Returns what does not fit. */
static const char *check_convolution(const void *function)
{
	struct torch_offsets *o = &torch_offsets;
	for (uint32_t at = FUNCTION_SEQUENCE_FIRST; at <= FUNCTION_SEQUENCE_LAST && !o->function_sequence; at += 8)
		if (TORCH_AT(int64_t, function, at) == probe.sequence &&
		    TORCH_AT(uint64_t, function, at + SEQUENCE_INPUTS + 8) == 9)
			o->function_sequence = at;
	if (!o->function_sequence)
		return "sequence number and inputs not found";
	o->function_inputs = o->function_sequence + SEQUENCE_INPUTS;
	o->function_index = o->function_sequence - 8;
	o->function_forward = o->function_sequence + SEQUENCE_FORWARD;
	o->function_thread = FUNCTION_THREAD;
	o->function_scope = FUNCTION_SCOPE;
	if (TORCH_AT(uint64_t, function, FUNCTION_THREAD) != torch_symbols.thread_id())
		return "thread not found";
	if (TORCH_AT(uint8_t, function, FUNCTION_SCOPE) != TORCH_SCOPE_FUNCTION)
		return "scope not found";
	if (TORCH_AT(uint8_t, function, o->function_index) != 1)
		return "kind of name not found";
	if (TORCH_AT(uint64_t, function, o->function_forward) != 0 ||
	    TORCH_AT(uint64_t, function, o->function_sequence + SEQUENCE_HANDLE) == 0 ||
	    TORCH_AT(uint8_t, function, o->function_sequence + SEQUENCE_ASYNC) != 0)
		return "forward thread not found";

	const struct torch_value *v = TORCH_AT(const struct torch_value *, function, o->function_inputs);
	if (v[0].pointer != impl_of(probe.input) || v[1].pointer != impl_of(probe.weight) || v[0].tag != v[1].tag)
		return "tensors are not where expected";
	o->tag_tensor = v[0].tag;
	o->tag_list = v[3].tag;
	o->tag_bool = v[6].tag;
	o->tag_int = v[8].tag;
	if (v[2].tag != 0 && (v[2].tag != o->tag_tensor || v[2].pointer != torch_symbols.undefined_tensor))
		return "an absent tensor does not look as expected";
	if (v[4].tag != o->tag_list || v[5].tag != o->tag_list || v[7].tag != o->tag_list || v[8].integer != GROUPS ||
	    v[6].boolean != 0)
		return "arguments are not where expected";
	if (!list_is(&v[3], stride, 2) || !list_is(&v[4], padding, 2) || !list_is(&v[5], dilation, 2) ||
	    !list_is(&v[7], padding, 2))
		return "lists are not as expected";
	return NULL;
}

/* Arguments: self, mat1, mat2, beta, alpha, out. */
static const char *check_addmm(const void *function)
{
	struct torch_offsets *o = &torch_offsets;
	const struct torch_value *v = TORCH_AT(const struct torch_value *, function, o->function_inputs);
	if (TORCH_AT(uint64_t, function, o->function_inputs + 8) != 6)
		return "the number of inputs is not as expected";
	if (v[0].tag != o->tag_tensor || v[1].pointer != impl_of(probe.left) || v[2].pointer != impl_of(probe.right))
		return "tensors are not where expected";
	o->tag_double = v[3].tag;
	if (v[4].tag != o->tag_double || v[3].real != BETA || v[4].real != ALPHA)
		return "floating-point arguments are not as expected";
	return NULL;
}

static int tensor_is(void *handle, uint64_t rank, const int64_t *sizes, const int64_t *strides)
{
	const void *tensor = impl_of(handle);
	const int64_t *at = (const int64_t *)((const char *)tensor + torch_offsets.tensor_sizes + 8);
	int64_t *told = NULL;
	if (TORCH_AT(uint64_t, tensor, torch_offsets.tensor_sizes) != rank)
		return 0;
	const int64_t *at_strides = at + TORCH_INLINE_RANK;
	if (rank > TORCH_INLINE_RANK) {
		at = *(const int64_t *const *)at;
		/* Asks torch first, because the value that is read here is an address. */
		if (torch_symbols.get_sizes(handle, &told) || told != at)
			return 0;
		at_strides = at + rank;
	}
	if (torch_symbols.get_sizes(handle, &told) || told != at || memcmp(at, sizes, rank * sizeof *at) != 0)
		return 0;
	return !torch_symbols.get_strides(handle, &told) && told == at_strides &&
	       !memcmp(at_strides, strides, rank * sizeof *at);
}

static const char *check_tensors(void)
{
	struct torch_offsets *o = &torch_offsets;
	const void *weight = impl_of(probe.weight);
	const int64_t pattern[5] = {4, 3, 2, 1, 1};
	for (uint32_t at = TENSOR_SIZES_FIRST; at <= TENSOR_SIZES_LAST && !o->tensor_sizes; at += 8)
		if (!memcmp((const char *)weight + at, pattern, sizeof pattern))
			o->tensor_sizes = at;
	if (!o->tensor_sizes)
		return "sizes not found";
	o->tensor_dtype = o->tensor_sizes + SIZES_DTYPE;
	o->tensor_device = o->tensor_sizes + SIZES_DEVICE;
	o->tensor_flags = o->tensor_sizes + SIZES_FLAGS;
	if (!tensor_is(probe.weight, 4, weight_sizes, weight_strides) ||
	    !tensor_is(probe.input, 4, input_sizes, input_strides) ||
	    !tensor_is(probe.heap, HEAP_RANK, heap_sizes, heap_strides))
		return "sizes and strides are not as expected";
	if (TORCH_AT(int64_t, weight, o->tensor_sizes + SIZES_NUMEL) != 6)
		return "number of elements not found";
	if (TORCH_AT(uint16_t, weight, o->tensor_dtype) != torch_symbols.dtype_float64())
		return "dtype not found";
	if (TORCH_AT(int8_t, weight, o->tensor_device) != torch_symbols.device_type_cpu() ||
	    TORCH_AT(uint8_t, weight, o->tensor_device + 2) != 1)
		return "device not found";
	if (TORCH_AT(uint8_t, weight, o->tensor_flags) & FLAGS_KNOWN)
		return "flags are not as expected";
	return NULL;
}

static void *probe_start(void **to, const void *function)
{
	*to = NULL;
	const char *name = torch_symbols.name(function);
	if (probe.failure)
		return to;
	if (!probe.convolution_seen && !strcmp(name, "aten::convolution")) {
		probe.convolution_seen = 1;
		probe.failure = check_convolution(function);
	} else if (probe.convolution_seen && !probe.addmm_seen && !strcmp(name, "aten::addmm")) {
		probe.addmm_seen = 1;
		probe.failure = check_addmm(function);
	}
	return to;
}

static void probe_end(const void *function, void *context)
{
	(void)function;
	(void)context;
}

static int make(void **ret, int64_t rank, const int64_t *sizes, const int64_t *strides)
{
	return torch_symbols.empty_strided(rank, sizes, strides, torch_symbols.dtype_float64(),
					   torch_symbols.device_type_cpu(), 0, ret) == 0 &&
	       *ret;
}

static const char *run_probe(void)
{
	const struct torch_symbols *s = &torch_symbols;
	const int64_t square[2] = {2, 2}, square_strides[2] = {2, 1};
	void *made = NULL;
	probe.int_type = type_of(s->int_type, s->int_type_vtable);
	torch_offsets.tensor_type = type_of(s->tensor_type, s->tensor_type_vtable);
	if (!probe.int_type || !torch_offsets.tensor_type)
		return "types of lists not found";
	if (!make(&probe.input, 4, input_sizes, input_strides) ||
	    !make(&probe.weight, 4, weight_sizes, weight_strides) ||
	    !make(&probe.heap, HEAP_RANK, heap_sizes, heap_strides) || !make(&probe.out, 2, square, square_strides) ||
	    !make(&probe.left, 2, square, square_strides) || !make(&probe.right, 2, square, square_strides))
		return "no probe tensors could be made";
	const char *failure = check_tensors();
	if (failure)
		return failure;
	for (int i = 0; i < CALIBRATION_SEQUENCE; i++)
		s->sequence_next();
	probe.sequence = s->sequence_peek();
	struct torch_callback callback = {
		.start = probe_start, .end = probe_end, .sampling = 1.0, .needs_inputs = 1, .needs_ids = 1};
	callback.scopes[TORCH_SCOPE_FUNCTION] = 1;
	uint64_t handle = s->add_local(callback);
	int32_t error = s->convolution(probe.input, probe.weight, NULL, stride, 2, padding, 2, dilation, 2, 0, padding,
				       2, GROUPS, &made);
	if (!error && !probe.failure)
		error = s->addmm_out(probe.out, probe.out, probe.left, probe.right, (float)BETA, (float)ALPHA);
	s->remove(handle);
	if (made)
		s->delete_tensor(made);
	if (error)
		return "a probe operator failed";
	if (!probe.failure && (!probe.convolution_seen || !probe.addmm_seen))
		return "the probe operators were not seen";
	return probe.failure;
}

static void *probe_thread(void *unused)
{
	void **tensors[] = {&probe.input, &probe.weight, &probe.heap, &probe.out, &probe.left, &probe.right};
	(void)unused;
	probe.failure = run_probe();
	if (!probe.failure)
		torch_collective_prove();
	for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
		if (*tensors[i])
			torch_symbols.delete_tensor(*tensors[i]);
	return NULL;
}

static int run_thread(void)
{
	pthread_t thread;
	unsigned place = gate_enter(GATE_OWN_NS);
	int error = thread_start(&thread, probe_thread, NULL, CALIBRATION_STACK);
	if (!error)
		error = -pthread_join(thread, NULL);
	gate_leave(place);
	return error;
}

int torch_calibrate(char *reason, size_t bytes)
{
	static int state; /* 0 not yet, 1 proved, 2 refused */
	const struct torch_symbols *s = &torch_symbols;
	if (!state) {
		int error = 0;
		if (!s->add_local || !s->thread_id || !s->sequence_next || !s->sequence_peek || !s->empty_strided ||
		    !s->convolution || !s->addmm_out || !s->delete_tensor || !s->get_sizes || !s->get_strides ||
		    !s->dtype_float64 || !s->device_type_cpu || !s->int_type || !s->tensor_type ||
		    !s->int_type_vtable || !s->tensor_type_vtable || !s->undefined_tensor)
			probe.failure = "it lacks functions that are needed to check its layout";
		else
			error = run_thread();
		if (error) {
			sentence_put(reason, bytes, "no thread could be started to check torch's layout", NULL);
			return error;
		}
		state = probe.failure ? 2 : 1;
	}
	sentence_put(reason, bytes, state == 1 ? "" : probe.failure, NULL);
	return state == 1 ? 0 : -ENOTSUP;
}
