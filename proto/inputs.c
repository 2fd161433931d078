/* inputs.c - the daemon's side of inputs.h: turns words that another process wrote into Kineto's JSON texts. Any
 * thread, no locks, no memory of its own. */
#include "inputs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const dtype_names[] = {
#define DTYPE(type, word) type,
#include "dtypes.def"
};

const char *inputs_dtype_name(unsigned dtype)
{
	return dtype < sizeof dtype_names / sizeof *dtype_names ? dtype_names[dtype] : "";
}

struct text {
	char *to;
	size_t n;
	int overflow;
};

static void text_put(struct text *text, const char *from)
{
	size_t bytes = strlen(from);
	if (bytes >= (size_t)INPUTS_TEXT_BYTES - text->n) {
		text->overflow = 1;
		return;
	}
	memcpy(text->to + text->n, from, bytes + 1);
	text->n += bytes;
}

static void text_int(struct text *text, int64_t value)
{
	char digits[24];
	snprintf(digits, sizeof digits, "%lld", (long long)value);
	text_put(text, digits);
}

/* As operator<< of c10::IValue writes a double. */
static void text_double(struct text *text, double value)
{
	char digits[40];
	int class = fpclassify(value);
	if ((class == FP_NORMAL || class == FP_ZERO) && fabs(value) < 1e10 && (double)(int64_t)value == value)
		snprintf(digits, sizeof digits, "%lld.", (long long)(int64_t)value);
	else
		snprintf(digits, sizeof digits, "%.17g", value);
	text_put(text, digits);
}

struct reader {
	const uint32_t *words;
	size_t n, at;
	struct text dims, types, strides, concrete;
};

/* Writes what Kineto writes for an input that it does not describe. */
static void put_nothing(struct reader *reader)
{
	text_put(&reader->dims, "[]");
	text_put(&reader->types, "\"\"");
	text_put(&reader->strides, "[]");
	text_put(&reader->concrete, "\"\"");
}

static uint32_t item_kind(uint32_t word)
{
	return word >> INPUTS_KIND_SHIFT;
}

/* Words of one TENSOR item, 0 where it is broken. */
static size_t tensor_words(const struct reader *reader, uint32_t word)
{
	size_t rank = word & INPUTS_RANK_MASK;
	size_t words = 1 + (rank << ((word & INPUTS_WIDE ? 1 : 0) + (word & INPUTS_STRIDED ? 1 : 0)));
	return rank > INPUTS_RANK_MAX || words > reader->n - reader->at ? 0 : words;
}

static int64_t tensor_value(const struct reader *reader, uint32_t word, size_t i)
{
	const uint32_t *at = reader->words + reader->at + 1;
	if (word & INPUTS_WIDE)
		return (int64_t)((uint64_t)at[2 * i] | (uint64_t)at[2 * i + 1] << 32);
	return at[i];
}

/* Writes sizes and strides of the tensor at reader->at and moves past it. */
static int put_tensor_numbers(struct reader *reader, uint32_t word)
{
	size_t words = tensor_words(reader, word), rank = word & INPUTS_RANK_MASK;
	if (!words)
		return -EPROTO;
	text_put(&reader->dims, "[");
	text_put(&reader->strides, "[");
	for (size_t i = 0; i < rank; i++) {
		text_put(&reader->dims, i ? ", " : "");
		text_int(&reader->dims, tensor_value(reader, word, i));
		if (word & INPUTS_STRIDED) {
			text_put(&reader->strides, i ? ", " : "");
			text_int(&reader->strides, tensor_value(reader, word, rank + i));
		}
	}
	text_put(&reader->dims, "]");
	text_put(&reader->strides, "]");
	reader->at += words;
	return 0;
}

/* Writes one scalar's text (without quotes) into `text` and moves past it. -EPROTO where it is no scalar. */
static int put_scalar_text(struct reader *reader, struct text *text)
{
	size_t left = reader->n - reader->at;
	const uint32_t *at = reader->words + reader->at;
	if (left && item_kind(at[0]) == INPUTS_BOOL) {
		text_put(text, at[0] & 1 ? "True" : "False");
		reader->at += 1;
	} else if (left >= 2 && item_kind(at[0]) == INPUTS_INT && at[0] & INPUTS_SHORT) {
		text_int(text, (int32_t)at[1]);
		reader->at += 2;
	} else if (left >= 3 && item_kind(at[0]) == INPUTS_INT) {
		text_int(text, (int64_t)((uint64_t)at[1] | (uint64_t)at[2] << 32));
		reader->at += 3;
	} else if (left >= 3 && item_kind(at[0]) == INPUTS_DOUBLE) {
		double value;
		memcpy(&value, at + 1, sizeof value);
		text_double(text, value);
		reader->at += 3;
	} else {
		return -EPROTO;
	}
	return 0;
}

/* Moves past one item of any kind without writing anything. */
static int skip_item(struct reader *reader, int depth)
{
	if (reader->at >= reader->n)
		return -EPROTO;
	uint32_t word = reader->words[reader->at];
	size_t words = 0;
	switch (item_kind(word)) {
	case INPUTS_NONE:
	case INPUTS_OPAQUE:
	case INPUTS_BOOL:
	case INPUTS_OTHER:
		words = 1;
		break;
	case INPUTS_INT:
		words = word & INPUTS_SHORT ? 2 : 3;
		break;
	case INPUTS_DOUBLE:
		words = 3;
		break;
	case INPUTS_TENSOR:
		words = tensor_words(reader, word);
		break;
	case INPUTS_LIST:
		if (depth >= INPUTS_DEPTH_MAX)
			return -EPROTO;
		reader->at++;
		for (uint32_t i = 0; i < (word & INPUTS_COUNT_MASK); i++) {
			int error = skip_item(reader, depth + 1);
			if (error)
				return error;
		}
		return 0;
	default:
		break;
	}
	if (!words || words > reader->n - reader->at)
		return -EPROTO;
	reader->at += words;
	return 0;
}

/* Describes a list of tensors as Kineto does: a list with an undefined tensor not at all, a long one only by its
 * type. */
static int put_tensor_list(struct reader *reader, uint32_t count, int is_cut)
{
	size_t dims = reader->dims.n, strides = reader->strides.n;
	int defined = 1, is_long = is_cut || count > INPUTS_TENSORS_MAX;
	text_put(&reader->dims, "[");
	text_put(&reader->strides, "[");
	for (uint32_t i = 0; i < count; i++) {
		int error;
		if (reader->at < reader->n && item_kind(reader->words[reader->at]) == INPUTS_TENSOR) {
			text_put(&reader->dims, i ? ", " : "");
			text_put(&reader->strides, i ? ", " : "");
			error = put_tensor_numbers(reader, reader->words[reader->at]);
		} else {
			defined = 0;
			error = skip_item(reader, 1);
		}
		if (error)
			return error;
	}
	text_put(&reader->dims, "]");
	text_put(&reader->strides, "]");
	if (!defined || is_long) {
		reader->dims.n = dims;
		reader->strides.n = strides;
	}
	if (!defined) {
		put_nothing(reader);
		return 0;
	}
	if (is_long) {
		text_put(&reader->dims, "[]");
		text_put(&reader->strides, "[]");
	}
	text_put(&reader->types, "\"TensorList\"");
	text_put(&reader->concrete, "\"\"");
	return 0;
}

static int put_scalar_list(struct reader *reader, uint32_t count)
{
	text_put(&reader->dims, "[]");
	text_put(&reader->strides, "[]");
	text_put(&reader->types, "\"ScalarList\"");
	text_put(&reader->concrete, "\"[");
	for (uint32_t i = 0; i < count; i++) {
		text_put(&reader->concrete, i ? ", " : "");
		int error = put_scalar_text(reader, &reader->concrete);
		if (error)
			return error;
	}
	text_put(&reader->concrete, "]\"");
	return 0;
}

/* Writes one input of the operator. */
static int put_item(struct reader *reader)
{
	uint32_t word = reader->words[reader->at];
	uint32_t count = word & INPUTS_COUNT_MASK;
	int error;
	switch (item_kind(word)) {
	case INPUTS_TENSOR:
		text_put(&reader->types, "\"");
		text_put(&reader->types, inputs_dtype_name(word >> INPUTS_DTYPE_SHIFT & 0xff));
		text_put(&reader->types, "\"");
		text_put(&reader->concrete, "\"\"");
		return put_tensor_numbers(reader, word);
	case INPUTS_BOOL:
	case INPUTS_INT:
	case INPUTS_DOUBLE:
		text_put(&reader->dims, "[]");
		text_put(&reader->strides, "[]");
		text_put(&reader->types, "\"Scalar\"");
		text_put(&reader->concrete, "\"");
		error = put_scalar_text(reader, &reader->concrete);
		text_put(&reader->concrete, "\"");
		return error;
	case INPUTS_LIST:
		switch (word >> INPUTS_LIST_TYPE_SHIFT & 7) {
		case INPUTS_LIST_TENSORS:
			reader->at++;
			return put_tensor_list(reader, count, (word & INPUTS_CUT) != 0);
		case INPUTS_LIST_SCALARS:
			reader->at++;
			return put_scalar_list(reader, count);
		case INPUTS_LIST_GENERIC:
			put_nothing(reader);
			return skip_item(reader, 0);
		default:
			return -EPROTO;
		}
	default:
		put_nothing(reader);
		return skip_item(reader, 0);
	}
}

static void put_all(struct reader *reader, const char *text)
{
	text_put(&reader->dims, text);
	text_put(&reader->types, text);
	text_put(&reader->strides, text);
	text_put(&reader->concrete, text);
}

int inputs_to_json(const uint32_t *words, size_t n, struct inputs_text *ret_text)
{
	struct reader reader = {
		.words = words,
		.n = n,
		.dims.to = ret_text->dims,
		.types.to = ret_text->types,
		.strides.to = ret_text->strides,
		.concrete.to = ret_text->concrete,
	};
	int error = n > LIMIT_INPUTS_WORDS ? -EPROTO : 0;
	ret_text->dims[0] = ret_text->types[0] = ret_text->strides[0] = ret_text->concrete[0] = 0;
	put_all(&reader, "[");
	for (int first = 1; !error && reader.at < n; first = 0) {
		put_all(&reader, first ? "" : ", ");
		error = put_item(&reader);
	}
	put_all(&reader, "]");
	if (!error &&
	    (reader.dims.overflow || reader.types.overflow || reader.strides.overflow || reader.concrete.overflow))
		error = -EPROTO;
	if (error)
		ret_text->dims[0] = ret_text->types[0] = ret_text->strides[0] = ret_text->concrete[0] = 0;
	return error;
}
