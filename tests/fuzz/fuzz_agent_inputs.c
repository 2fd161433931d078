/* fuzz_agent_inputs.c - what the agent reads by address out of torch: the inputs of an operator, as c10::IValues, tensors and
 * lists. All of them lie in memory of exactly their size, so that the sanitizer sees a read past the end; what stands in them is
 * the fuzzer's: ranks, flags, tags, lists in lists. What is written is what the daemon's decoder takes. */
#include "agent/torch/internal.h"
#include "proto/inputs.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define OBJECTS_MAX 64
#define TENSOR_BYTES 160
#define LIST_BYTES 48

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct input {
	const uint8_t *at, *end;
	void *objects[OBJECTS_MAX];
	size_t count;
	const void *lists[OBJECTS_MAX]; /* those that are whole: a list may hold a list twice */
	size_t list_count;
} in;

static uint64_t take(size_t bytes)
{
	uint64_t value = 0;
	size_t there = (size_t)(in.end - in.at);
	memcpy(&value, in.at, bytes < there ? bytes : there);
	in.at += bytes < there ? bytes : there;
	return value;
}

static void *object(size_t bytes)
{
	void *made = in.count < OBJECTS_MAX ? malloc(bytes ? bytes : 1) : NULL;
	if (made) {
		memset(made, 0, bytes);
		in.objects[in.count++] = made;
	}
	return made;
}

static void put(void *to, size_t offset, const void *value, size_t bytes)
{
	memcpy((char *)to + offset, value, bytes);
}

static const void *tensor(void)
{
	const struct torch_offsets *o = &torch_offsets;
	unsigned char *made = object(TENSOR_BYTES);
	if (!made)
		return NULL;
	for (size_t i = 0; i < TENSOR_BYTES; i += 8)
		put(made, i, &(uint64_t){take(1) * 0x0101010101010101u}, 8);
	made[o->tensor_flags] = (unsigned char)take(1);
	/* A rank that the flags do not forbid to read has its sizes and strides; others have nothing behind their address. */
	uint64_t rank = take(1) & 1 ? take(1) & 15 : take(8);
	put(made, o->tensor_sizes, &rank, sizeof rank);
	if (rank > TORCH_INLINE_RANK) {
		bool real = rank <= INPUTS_RANK_MAX;
		int64_t *sizes = object(real ? rank * 2 * sizeof *sizes : 0);
		for (uint64_t i = 0; sizes && real && i < rank * 2; i++)
			sizes[i] = (int64_t)(take(1) & 1 ? take(8) : take(1));
		/* Without memory for it the tensor has no dimensions. */
		if (!sizes)
			put(made, o->tensor_sizes, &(uint64_t){0}, 8);
		put(made, o->tensor_sizes + 8, &sizes, sizeof sizes);
	}
	return made;
}

static struct torch_value value(int depth);

static const void *list(int depth)
{
	if (in.list_count && (take(1) & 3) == 0)
		return in.lists[take(1) % in.list_count];
	size_t length = take(1) & 1 ? take(1) & 7 : take(2) & 0x3ff;
	unsigned char *made = object(LIST_BYTES);
	struct torch_value *items = made ? object(length * sizeof *items) : NULL;
	if (!items)
		return NULL;
	int same = take(1) & 1;
	for (size_t i = 0; i < length; i++)
		items[i] = same && i ? items[0] : value(depth + 1);
	const struct torch_value *end = items + length;
	put(made, TORCH_LIST_BEGIN, &items, sizeof items);
	put(made, TORCH_LIST_END, &end, sizeof end);
	/* A list of tensors says so, and has nothing else. */
	bool tensors = true;
	for (size_t i = 0; i < length; i++)
		tensors = tensors && items[i].tag == torch_offsets.tag_tensor;
	if (tensors && take(1) & 1)
		put(made, TORCH_LIST_ELEMENT_TYPE, &torch_offsets.tensor_type, sizeof(void *));
	in.lists[in.list_count++] = made;
	return made;
}

static struct torch_value value(int depth)
{
	const struct torch_offsets *o = &torch_offsets;
	struct torch_value made = {.integer = (int64_t)take(8)};
	uint8_t kind = (uint8_t)take(1);
	made.tag = kind & 0x80 ? (uint32_t)take(4) : kind % 8;
	if (made.tag == o->tag_tensor)
		made.pointer = tensor();
	if (made.tag == o->tag_list) {
		made.pointer = depth < 8 ? list(depth) : NULL;
		if (!made.pointer)
			made.tag = 0;
	}
	return made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const char type_of_tensors;
	static struct inputs_text text;
	uint32_t words[LIMIT_INPUTS_WORDS];
	torch_offsets = (struct torch_offsets){.function_inputs = 8,
					       .tensor_sizes = 16,
					       .tensor_dtype = 112,
					       .tensor_device = 120,
					       .tensor_flags = 128,
					       .tag_tensor = 1,
					       .tag_double = 2,
					       .tag_int = 4,
					       .tag_bool = 5,
					       .tag_list = 7,
					       .tensor_type = &type_of_tensors};
	memset(&in, 0, sizeof in);
	in.at = data;
	in.end = data + n;
	size_t count = take(1);
	struct torch_value *values = malloc(count ? count * sizeof *values : 1);
	if (!values)
		return 0;
	for (size_t i = 0; i < count; i++)
		values[i] = value(0);
	struct {
		void *vtable;
		const struct torch_value *values;
		uint64_t count;
	} function = {NULL, values, count};
	uint32_t used = torch_describe_inputs(&function, words);
	if (used <= LIMIT_INPUTS_WORDS && inputs_to_json(words, used, &text) != 0)
		abort();
	for (size_t i = 0; i < in.count; i++)
		free(in.objects[i]);
	free(values);
	return 0;
}
