/* flops.c - see flops.h. */
#include "flops.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MOST_INPUTS 16
#define MOST_DIMS 8
#define WORD_BYTES 96

struct shape {
	size_t count;
	int64_t sizes[MOST_DIMS];
};

struct call {
	struct shape inputs[MOST_INPUTS];
	size_t input_count;
	char words[MOST_INPUTS][WORD_BYTES]; /* scalars, and lists of them, as text; empty: none */
	size_t word_count;
};

/* --- reading the two lists --- */

static const char *skip(const char *at)
{
	return at + strspn(at, " ,");
}

/* "[[4, 8], [], [3]]". An input that is a list of tensors, "[[[1], [2]]]", has no shape of its own. */
static bool read_dims(struct call *call, const char *at)
{
	if (*at++ != '[')
		return false;
	for (at = skip(at); *at == '['; at = skip(at)) {
		if (call->input_count == MOST_INPUTS)
			return true;
		struct shape *shape = &call->inputs[call->input_count++];
		int depth = 1;
		bool nested = false;
		for (at++; *at && depth > 0;) {
			if (*at == '[' || *at == ']') {
				depth += *at == '[' ? 1 : -1;
				nested = nested || depth > 1;
				at++;
			} else if ((*at >= '0' && *at <= '9') || *at == '-') {
				char *end;
				int64_t size = strtoll(at, &end, 10);
				/* No tensor has a size below 0. */
				if (end == at || size < 0)
					return false;
				if (shape->count < MOST_DIMS)
					shape->sizes[shape->count] = size;
				shape->count++;
				at = end;
			} else {
				at++;
			}
		}
		if (nested || shape->count > MOST_DIMS)
			shape->count = 0;
	}
	return *at == ']';
}

/* "["", "[1, 1]", "2"]". The strings that are read here have no escapes. */
static void read_words(struct call *call, const char *at)
{
	for (at = strchr(at, '"'); at && call->word_count < MOST_INPUTS; at = strchr(at, '"')) {
		const char *end = strchr(at + 1, '"');
		if (!end)
			return;
		size_t n = (size_t)(end - at - 1);
		if (n < WORD_BYTES)
			memcpy(call->words[call->word_count], at + 1, n);
		call->word_count++;
		at = end + 1;
	}
}

/* --- products that may not overflow --- */

/* A negative result: it overflowed, or a factor was negative. */
static int64_t times(int64_t a, int64_t b)
{
	int64_t product;
	return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? -1 : product;
}

static int64_t sum(int64_t a, int64_t b)
{
	int64_t total;
	return a < 0 || b < 0 || __builtin_add_overflow(a, b, &total) ? -1 : total;
}

static int64_t product_from(const struct shape *shape, size_t first)
{
	int64_t product = 1;
	for (size_t i = first; i < shape->count; i++)
		product = times(product, shape->sizes[i]);
	return product;
}

/* --- formulas; a negative result is none --- */

/* [m, k] x [k, n]: inputs `first` and `first` + 1. */
static int64_t matrix(const struct call *call, size_t first)
{
	const struct shape *a = &call->inputs[first], *b = &call->inputs[first + 1];
	if (call->input_count < first + 2 || a->count != 2 || b->count != 2 || a->sizes[1] != b->sizes[0])
		return -1;
	return times(2, times(product_from(a, 0), b->sizes[1]));
}

static int64_t batched(const struct call *call, size_t first)
{
	const struct shape *a = &call->inputs[first], *b = &call->inputs[first + 1];
	if (call->input_count < first + 2 || a->count != 3 || b->count != 3 || a->sizes[0] != b->sizes[0] ||
	    a->sizes[2] != b->sizes[1])
		return -1;
	return times(2, times(product_from(a, 0), b->sizes[2]));
}

/* One operation for each element of the first input, as torch.profiler counts it. A tensor without dimensions has one
 * element. */
static int64_t elements(const struct call *call, size_t unused)
{
	(void)unused;
	return call->input_count ? product_from(&call->inputs[0], 0) : -1;
}

static bool list(const struct call *call, size_t index, size_t count, int64_t *ret)
{
	const char *at = index < call->word_count ? call->words[index] : "";
	size_t n = 0;
	if (*at++ != '[')
		return false;
	for (at = skip(at); *at && *at != ']' && n < count; at = skip(at)) {
		char *end;
		ret[n] = strtoll(at, &end, 10);
		if (end == at)
			return false;
		at = end;
		n++;
	}
	/* A list with one number means that number in each dimension. */
	if (n != 1)
		return n == count;
	for (size_t i = 1; i < count; i++)
		ret[i] = ret[0];
	return true;
}

/* Multiplications and additions of a convolution: its batch, its weight (out, in / groups, kernel...), and the places
 * to which the kernel is applied. */
static int64_t convolved(int64_t batch, const struct shape *weight, int64_t places)
{
	return times(2, times(times(batch, places), product_from(weight, 0)));
}

static int64_t convolution_of(const struct call *call, size_t transposed_at, size_t stride_at, size_t padding_at)
{
	const struct shape *input = &call->inputs[0], *weight = &call->inputs[1];
	int64_t stride[MOST_DIMS], padding[MOST_DIMS], dilation[MOST_DIMS], places = 1;
	size_t spatial = input->count - 2;
	if (call->input_count < 2 || input->count < 3 || weight->count != input->count)
		return -1;
	if (transposed_at && transposed_at < call->word_count && strcmp(call->words[transposed_at], "True") == 0)
		return convolved(input->sizes[0], weight, product_from(input, 2));
	size_t dilation_at = (stride_at > padding_at ? stride_at : padding_at) + 1;
	if (!list(call, stride_at, spatial, stride) || !list(call, padding_at, spatial, padding) ||
	    !list(call, dilation_at, spatial, dilation))
		return -1;
	for (size_t i = 0; i < spatial; i++) {
		int64_t reach = times(dilation[i], weight->sizes[i + 2] - 1);
		int64_t room = sum(input->sizes[i + 2], times(2, padding[i]));
		if (reach < 0 || room <= reach || stride[i] <= 0)
			return -1;
		places = times(places, (room - reach - 1) / stride[i] + 1);
	}
	return convolved(input->sizes[0], weight, places);
}

/* convolution(input, weight, bias, stride, padding, dilation, transposed, ...); conv2d has no `transposed`. */
static int64_t convolution(const struct call *call, size_t transposed_at)
{
	return convolution_of(call, transposed_at, 3, 4);
}

/* cudnn_convolution(input, weight, padding, stride, dilation, ...) */
static int64_t cudnn_convolution(const struct call *call, size_t unused)
{
	(void)unused;
	return convolution_of(call, 0, 3, 2);
}

/* convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
 * output_mask): the gradients of the input and of the weight cost what the forward did. */
static int64_t convolution_backward(const struct call *call, size_t unused)
{
	const struct shape *gradient = &call->inputs[0], *input = &call->inputs[1], *weight = &call->inputs[2];
	(void)unused;
	if (call->input_count < 3 || gradient->count < 3 || weight->count != gradient->count ||
	    input->count != gradient->count || call->word_count < 11)
		return -1;
	bool transposed = strcmp(call->words[7], "True") == 0;
	const char *mask = call->words[10], *second = strchr(mask, ',');
	if (*mask != '[' || !second)
		return -1;
	int64_t once = convolved(input->sizes[0], weight, product_from(transposed ? input : gradient, 2));
	int64_t gradients = (strncmp(mask, "[True", 5) == 0) + (strncmp(second, ", True", 6) == 0);
	return times(once, gradients);
}

/* The product for query, key and value, which are the inputs from `first` on. heads, places: which dimensions these
 * are. In the backward, the gradient is the first input, and the scores are computed again. */
static int64_t attention_of(const struct call *call, size_t first, size_t heads, size_t places)
{
	const struct shape *query = &call->inputs[first], *key = &call->inputs[first + 1],
			   *value = &call->inputs[first + 2];
	if (call->input_count < first + 3 || query->count != 4 || key->count != 4 || value->count != 4 ||
	    key->sizes[places] != value->sizes[places])
		return -1;
	int64_t pairs =
		times(times(query->sizes[0], query->sizes[heads]), times(query->sizes[places], key->sizes[places]));
	int64_t in = query->sizes[3], out = value->sizes[3];
	return times(2, times(pairs, first ? sum(times(3, in), times(2, out)) : sum(in, out)));
}

static int64_t attention(const struct call *call, size_t first)
{
	return attention_of(call, first, 1, 2);
}

/* The kernels' own functions have (batch, place, head, size). If one input holds sequences of several lengths (input
 * `offsets`), the work depends on what is in that tensor. */
static int64_t attention_kernel(const struct call *call, size_t offsets)
{
	enum { OF_BACKWARD = 6 };
	if (call->input_count <= offsets || call->inputs[offsets].count)
		return -1;
	return attention_of(call, offsets == OF_BACKWARD, 2, 1);
}

static const struct formula {
	const char *name;
	int64_t (*flops)(const struct call *call, size_t argument);
	size_t argument;
	bool counted;
	bool inner; /* mostly another operator calls it, and counts it */
} formulas[] = {
	{"aten::mm", matrix, 0, true, false},
	{"aten::addmm", matrix, 1, true, false},
	{"aten::bmm", batched, 0, true, false},
	{"aten::baddbmm", batched, 1, true, false},
	{"aten::_scaled_mm", matrix, 0, true, false},
	{"aten::add", elements, 0, true, false},
	{"aten::mul", elements, 0, true, false},
	{"aten::conv2d", convolution, 0, false, false},
	{"aten::convolution", convolution, 6, true, false},
	{"aten::convolution_backward", convolution_backward, 0, true, false},
	{"aten::_scaled_dot_product_efficient_attention", attention, 0, true, false},
	{"aten::_scaled_dot_product_flash_attention", attention, 0, true, false},
	{"aten::_scaled_dot_product_flash_attention_for_cpu", attention, 0, true, false},
	{"aten::_scaled_dot_product_cudnn_attention", attention, 0, true, false},
	{"aten::_scaled_dot_product_efficient_attention_backward", attention, 1, true, false},
	{"aten::_scaled_dot_product_flash_attention_backward", attention, 1, true, false},
	{"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention, 1, true, false},
	{"aten::_scaled_dot_product_cudnn_attention_backward", attention, 1, true, false},
	{"aten::_convolution", convolution, 6, true, true},
	{"aten::cudnn_convolution", cudnn_convolution, 0, true, true},
	{"aten::_flash_attention_forward", attention_kernel, 3, true, true},
	{"aten::_efficient_attention_forward", attention_kernel, 4, true, true},
	{"aten::_flash_attention_backward", attention_kernel, 6, true, true},
	{"aten::_efficient_attention_backward", attention_kernel, 6, true, true},
};

static const struct formula *formula_of(const char *name)
{
	for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
		if (strcmp(name, formulas[i].name) == 0)
			return &formulas[i];
	return NULL;
}

bool flops_known(const char *name)
{
	return formula_of(name);
}

bool flops_counted(const char *name)
{
	const struct formula *formula = formula_of(name);
	return formula && formula->counted;
}

bool flops_inner(const char *name)
{
	const struct formula *formula = formula_of(name);
	return formula && formula->inner;
}

bool flops_work(const char *name)
{
	const struct formula *formula = formula_of(name);
	return formula && formula->counted && !formula->inner && formula->flops != elements;
}

bool flops_of(const char *name, const char *dims, const char *concrete, int64_t *ret_flops)
{
	const struct formula *formula = formula_of(name);
	struct call call = {0};
	if (!formula || !read_dims(&call, dims))
		return false;
	read_words(&call, concrete);
	*ret_flops = formula->flops(&call, formula->argument);
	return *ret_flops >= 0;
}
