/* describe.c - describes an operator's inputs. It reads the IValues that torch hands to a callback by offsets, without
 * a call into torch: a call on a live input could enter Python, record events itself, or print. Any thread; no
 * locks. */
#include "../../proto/inputs.h"
#include "internal.h"

static void put_tensor(struct inputs_writer *writer, const void *tensor)
{
	const struct torch_offsets *o = &torch_offsets;
	if (!tensor || tensor == torch_symbols.undefined_tensor) {
		inputs_put_none(writer);
		return;
	}
	uint8_t flags = TORCH_AT(uint8_t, tensor, o->tensor_flags);
	uint8_t dtype = (uint8_t)TORCH_AT(uint16_t, tensor, o->tensor_dtype);
	if (flags & TORCH_FLAG_SYMBOLIC || TORCH_POLICY(flags) >= TORCH_POLICY_CUSTOM_SIZES) {
		inputs_put_opaque(writer, dtype);
		return;
	}
	uint64_t rank = TORCH_AT(uint64_t, tensor, o->tensor_sizes);
	const int64_t *sizes = (const int64_t *)((const char *)tensor + o->tensor_sizes + 8);
	const int64_t *strides = sizes + TORCH_INLINE_RANK;
	if (rank > INPUTS_RANK_MAX) {
		inputs_put_opaque(writer, dtype);
		return;
	}
	if (rank > TORCH_INLINE_RANK) {
		sizes = *(const int64_t *const *)sizes;
		strides = sizes + rank;
	}
	if (TORCH_POLICY(flags) == TORCH_POLICY_CUSTOM_STRIDES)
		strides = NULL;
	inputs_put_tensor(writer, dtype, TORCH_AT(uint8_t, tensor, o->tensor_device), (uint32_t)rank, sizes, strides);
}

static int is_scalar(const struct torch_value *value)
{
	return value->tag == torch_offsets.tag_int || value->tag == torch_offsets.tag_bool ||
	       value->tag == torch_offsets.tag_double;
}

static int is_defined(const struct torch_value *value)
{
	return value->tag == torch_offsets.tag_tensor && value->pointer &&
	       value->pointer != torch_symbols.undefined_tensor;
}

/* Describes a long list of tensors only by its type; a list with an undefined tensor gets no such type, as in
 * Kineto. */
static void put_long(struct inputs_writer *writer, const struct torch_value *begin, const struct torch_value *end)
{
	while (begin < end && is_defined(begin))
		begin++;
	if (begin < end)
		inputs_put_other(writer, torch_offsets.tag_list);
	else
		inputs_list_end(inputs_list_begin(writer), INPUTS_LIST_TENSORS, 0, 1);
}

static void put_value(struct inputs_writer *writer, const struct torch_value *value, int depth);

static void put_list(struct inputs_writer *writer, const void *list, int depth)
{
	const struct torch_value *begin = TORCH_AT(const struct torch_value *, list, TORCH_LIST_BEGIN);
	const struct torch_value *end = TORCH_AT(const struct torch_value *, list, TORCH_LIST_END);
	size_t count = end > begin ? (size_t)(end - begin) : 0, taken = 0, most = INPUTS_TENSORS_MAX;
	enum inputs_list type = INPUTS_LIST_GENERIC;
	uint32_t start = writer->n;

	if (TORCH_AT(const void *, list, TORCH_LIST_ELEMENT_TYPE) == torch_offsets.tensor_type) {
		type = INPUTS_LIST_TENSORS;
		if (count > INPUTS_TENSORS_MAX) {
			put_long(writer, begin, end);
			return;
		}
	} else if (!count || is_scalar(begin)) {
		type = INPUTS_LIST_SCALARS;
	} else {
		most = INPUTS_GENERIC_MAX;
	}
	uint32_t *at = type == INPUTS_LIST_SCALARS && count > INPUTS_SCALARS_MAX ? NULL : inputs_list_begin(writer);
	if (!at) {
		inputs_put_other(writer, torch_offsets.tag_list);
		return;
	}
	for (; taken < count && taken < most; taken++) {
		if (type == INPUTS_LIST_SCALARS && !is_scalar(begin + taken)) {
			writer->n = start;
			inputs_put_other(writer, torch_offsets.tag_list);
			return;
		}
		put_value(writer, begin + taken, depth + 1);
		if (writer->full)
			break;
	}
	inputs_list_end(at, type, (uint32_t)taken, taken < count);
}

static void put_value(struct inputs_writer *writer, const struct torch_value *value, int depth)
{
	const struct torch_offsets *o = &torch_offsets;
	if (value->tag == o->tag_tensor)
		put_tensor(writer, value->pointer);
	else if (value->tag == o->tag_int)
		inputs_put_int(writer, value->integer);
	else if (value->tag == o->tag_double)
		inputs_put_double(writer, value->real);
	else if (value->tag == o->tag_bool)
		inputs_put_bool(writer, value->boolean & 1);
	else if (value->tag == 0)
		inputs_put_none(writer);
	else if (value->tag == o->tag_list && depth < INPUTS_DEPTH_MAX)
		put_list(writer, value->pointer, depth);
	else
		inputs_put_other(writer, value->tag);
}

uint32_t torch_describe_inputs(const void *function, uint32_t *words)
{
	struct inputs_writer writer;
	const struct torch_value *values =
		TORCH_AT(const struct torch_value *, function, torch_offsets.function_inputs);
	uint64_t count = TORCH_AT(uint64_t, function, torch_offsets.function_inputs + 8);
	inputs_init(&writer, words, LIMIT_INPUTS_WORDS);
	for (uint64_t i = 0; i < count && !writer.full; i++)
		put_value(&writer, values + i, 0);
	return inputs_finish(&writer);
}
