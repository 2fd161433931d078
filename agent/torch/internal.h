/* internal.h - what the torch collector's files share: symbols.c (functions of libtorch), calibrate.c (offsets of
 * fields), describe.c (an operator's inputs), collective.c (collective operations), watch.c (steps), collector.c
 * (recording).
 *
 * The agent's thread writes symbols and offsets while no callback of ours that reads them is installed; they never
 * change afterwards. */
#ifndef PROFD_AGENT_TORCH_INTERNAL_H
#define PROFD_AGENT_TORCH_INTERNAL_H

#include "agent/core/own.h"
#include "agent/sink/sink.h"
#include "agent/steps/steps.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* at::RecordFunctionCallback, the same from 1.13 to 2.15. It is trivially copyable and larger than 16 bytes, so C++
 * passes it on the stack, as C does. */
struct torch_callback {
	/* Returns `to`, the hidden pointer to a std::unique_ptr<at::ObserverContext>. */
	void *(*start)(void **to, const void *function);
	void (*end)(const void *function, void *context);
	double sampling; /* probability */
	uint8_t scopes[10];
	uint8_t needs_inputs, needs_outputs, needs_ids;
};
_Static_assert(sizeof(struct torch_callback) == 40, "at::RecordFunctionCallback");
_Static_assert(offsetof(struct torch_callback, needs_ids) == 36, "at::RecordFunctionCallback.needs_ids");

#define TORCH_SCOPE_FUNCTION 0
#define TORCH_SCOPE_BACKWARD 1
#define TORCH_SCOPE_USER 7

#define TORCH_COMMS_FORMS 5

struct torch_symbols {
	uint64_t (*add_global)(struct torch_callback callback);
	void (*remove)(uint64_t handle);
	const char *(*name)(const void *function);

	/* Is torch's own profiler on: in the calling thread; in any thread (torch 2.5 and newer). NULL where this torch
	 * lacks the function. */
	uint8_t (*profiler_enabled)(void);
	uint8_t (*profiler_anywhere)(void);

	/* The following are for calibration; NULL where this torch lacks them. */
	uint64_t (*add_local)(struct torch_callback callback);
	uint64_t (*thread_id)(void);
	uint64_t (*sequence_next)(void);
	int64_t (*sequence_peek)(void);
	/* AOTInductor's C shim. A tensor's handle is an at::Tensor *. */
	int32_t (*empty_strided)(int64_t rank, const int64_t *sizes, const int64_t *strides, int32_t dtype,
				 int32_t device_type, int32_t device_index, void **ret_tensor);
	int32_t (*convolution)(void *input, void *weight, void *bias, const int64_t *stride, int64_t n_stride,
			       const int64_t *padding, int64_t n_padding, const int64_t *dilation, int64_t n_dilation,
			       int32_t transposed, const int64_t *output_padding, int64_t n_output_padding,
			       int64_t groups, void **ret_tensor);
	int32_t (*addmm_out)(void *out, void *self, void *left, void *right, float beta, float alpha);
	int32_t (*delete_tensor)(void *tensor);
	int32_t (*get_sizes)(void *tensor, int64_t **ret_sizes);
	int32_t (*get_strides)(void *tensor, int64_t **ret_strides);
	int32_t (*dtype_float64)(void);
	int32_t (*device_type_cpu)(void);
	/* c10::IntType::get, c10::TensorType::get; by value or by reference, see type_of(). */
	void *(*int_type)(void *buffer);
	void *(*tensor_type)(void *buffer);
	const void *int_type_vtable, *tensor_type_vtable;
	/* c10::GradMode::is_enabled() */
	uint8_t (*gradients_enabled)(void);
	const void *undefined_tensor; /* c10::UndefinedTensorImpl::_singleton */

	/* c10::ThreadLocalDebugInfo::get(), and its argument for collective operations: an address in newer releases, a
	 * number in the others. NULL where this torch lacks it. */
	const void *(*debug_info)(uintptr_t kind);
	const uintptr_t *comms_kind;
	/* Constructors of torch::ParamCommsDebugInfo; each torch has one of them. */
	const void *comms[TORCH_COMMS_FORMS];
};
OWN struct torch_symbols torch_symbols;

/* Byte offsets into at::RecordFunction and c10::TensorImpl, and tags of c10::IValue. Valid once torch_calibrate() has
 * returned 0. */
struct torch_offsets {
	uint32_t function_thread, function_scope, function_index, function_sequence, function_inputs, function_forward;
	uint32_t tensor_sizes, tensor_dtype, tensor_device, tensor_flags;
	uint32_t tag_tensor, tag_double, tag_int, tag_bool, tag_list;
	const void *tensor_type; /* element type of a list of tensors */
};
OWN struct torch_offsets torch_offsets;

/* c10::IValue: 8 bytes of payload, then the tag. */
struct torch_value {
	union {
		const void *pointer;
		int64_t integer;
		double real;
		uint8_t boolean;
	};
	uint32_t tag;
	uint32_t padding;
};
_Static_assert(sizeof(struct torch_value) == 16, "c10::IValue");

#define TORCH_AT(type, base, offset) (*(type const *)((const char *)(base) + (offset)))

/* Offsets in c10::impl::ListImpl and c10::impl::SizesAndStrides, all proved by calibration. */
#define TORCH_LIST_BEGIN 16
#define TORCH_LIST_END 24
#define TORCH_LIST_ELEMENT_TYPE 40
#define TORCH_INLINE_RANK 5

/* TensorImpl's flags byte: bit 4 symbolic sizes; bits 2 and 3 the larger of the policies (0 plain, 1 custom strides, 2 and
 * 3 custom sizes: a subclass, a nested tensor, functorch). */
#define TORCH_FLAG_SYMBOLIC 0x10
#define TORCH_POLICY(flags) (((flags) >> 2) & 3)
#define TORCH_POLICY_CUSTOM_STRIDES 1
#define TORCH_POLICY_CUSTOM_SIZES 2

/* Finds and proves torch_offsets, once in a process, on a thread of its own with all signals blocked. 0, or a negative
 * errno with the reason as a sentence (without a full stop). Later calls return the same. */
int torch_calibrate(char *reason, size_t bytes);

/* Looks for Python's layout (which.c). Called before the first call of torch_which. Agent's thread. */
void torch_which_init(void);
/* The object whose Optimizer.step the calling thread has entered; 0 = not known. `class`: the name of its class. */
OWN uint64_t (*torch_which)(const char *class, size_t bytes);

/* A frame of a Python function: its code, the object that is its first local, if it has one, and where in the code it is. */
struct torch_frame {
	uint64_t code, first, instruction;
};
/* The innermost frames of the calling thread, at most `room`; none where they are not known. */
uint32_t torch_frames(struct torch_frame *frames, uint32_t room);
/* Does torch_frames() know this Python's layout? After torch_which_init(). */
bool torch_knows_frames(void);
/* The request for a batch that the calling thread has just begun. errno stays as it is. */
void torch_pass(struct steps_pass *ret);

/* Describes the inputs of `function` (proto/inputs.h) in `words`, LIMIT_INPUTS_WORDS long. Returns how many words it
 * used, or more than that where there is no room. */
uint32_t torch_describe_inputs(const void *function, uint32_t *words);

/* A function that torch opens around a collective operation of NCCL's or UCC's; no operator with a schema has this name. */
static inline bool torch_is_collective(const char *name)
{
	return name[0] == 'r' && !strcmp(name, "record_param_comms");
}
/* Proves the offsets in the object in which torch describes them. If that fails nothing of it is recorded.
 * Calibration's thread. */
void torch_collective_prove(void);
/* Writes what torch tells about the operation that the calling thread has just begun, and sets the start of its frame
 * again. `frame` NULL: it has none. */
void torch_collective(struct sink_thread *thread, struct sink_frame *frame);

/* Are operators recorded? */
bool torch_is_on(void);

/* Are the operators' Python stacks wanted? */
OWN atomic_uchar torch_stacks_on;
/* Sets the stack of an operator that has just been opened, or the node of autograd in which it runs. */
void torch_stack(struct sink_thread *thread, struct sink_frame *frame);

/* Closes a frame at `now`. The end callbacks of collector.c and of watch.c (before it ticks) call it; the second one
 * finds the frame closed. Returns 1 where the frame's end is a step of the capture: the caller tells steps.h after it
 * has left the sink. */
int torch_close_frame(struct sink_thread *thread, struct sink_frame *frame, uint64_t now);

/* Adds and removes callbacks, inside the gate: torch has a lock for them. */
uint64_t torch_add_callback(const struct torch_callback *callback);
void torch_remove_callback(uint64_t handle);

#endif
