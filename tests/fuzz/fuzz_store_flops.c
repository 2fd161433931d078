/* fuzz_store_flops.c - operations of an operator whose inputs a hostile agent describes: the first byte is the operator, then the two
 * texts, with a NUL between. A number that comes out is one. */
#include "store/flops.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char *const names[] = {
	"aten::mm",
	"aten::addmm",
	"aten::bmm",
	"aten::baddbmm",
	"aten::_scaled_mm",
	"aten::add",
	"aten::mul",
	"aten::conv2d",
	"aten::convolution",
	"aten::convolution_backward",
	"aten::_scaled_dot_product_efficient_attention",
	"aten::_scaled_dot_product_flash_attention",
	"aten::_scaled_dot_product_flash_attention_for_cpu",
	"aten::_scaled_dot_product_cudnn_attention",
	"aten::_scaled_dot_product_efficient_attention_backward",
	"aten::_scaled_dot_product_flash_attention_backward",
	"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
	"aten::_scaled_dot_product_cudnn_attention_backward",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (!n)
		return 0;
	/* Of exactly their size, so that a read past the end is seen. */
	const uint8_t *parted = memchr(data + 1, 0, n - 1);
	size_t first = parted ? (size_t)(parted - data - 1) : n - 1, second = parted ? n - first - 2 : 0;
	char *dims = malloc(first + 1), *words = malloc(second + 1);
	if (!dims || !words)
		abort();
	memcpy(dims, data + 1, first);
	dims[first] = 0;
	if (second)
		memcpy(words, parted + 1, second);
	words[second] = 0;
	int64_t flops = 0;
	if (flops_of(names[data[0] % (sizeof names / sizeof *names)], dims, words, &flops) && flops < 0)
		abort();
	free(dims);
	free(words);
	return 0;
}
