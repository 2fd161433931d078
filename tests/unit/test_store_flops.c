/* test_store_flops.c - floating point operations of a call: torch.profiler's own figures (torch 2.15, with_flops), and those of its flop counter. */
#include "store/flops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static int64_t flops(const char *name, const char *dims, const char *concrete)
{
	int64_t result;
	return flops_of(name, dims, concrete, &result) ? result : -1;
}

static void test_profiler(void **state)
{
	(void)state;
	assert_int_equal(flops("aten::conv2d", "[[4, 8, 16, 16], [16, 4, 3, 3], [16], [], [], [], []]",
			       "[\"\", \"\", \"\", \"[2, 2]\", \"[1, 1]\", \"[1, 1]\", \"2\"]"),
			 294912);
	assert_int_equal(flops("aten::mm", "[[5, 6], [6, 7]]", "[\"\", \"\"]"), 420);
	assert_int_equal(flops("aten::bmm", "[[3, 5, 6], [3, 6, 7]]", "[\"\", \"\"]"), 1260);
	assert_int_equal(flops("aten::baddbmm", "[[3, 5, 7], [3, 5, 6], [3, 6, 7], [], []]", "[]"), 1260);
	assert_int_equal(flops("aten::add", "[[5, 7], [5, 7], []]", "[]"), 35);
	assert_int_equal(flops("aten::mul", "[[5, 7], []]", "[]"), 35);
	assert_int_equal(flops("aten::addmm", "[[4], [2, 3], [3, 4], [], []]", "[]"), 48);
}

/* sdpa_flop and sdpa_backward_flop of torch.utils.flop_counter for (2, 4, 5, 8), and conv_flop for one dimension. */
static void test_counter(void **state)
{
	static const char qkv[] = "[[2, 4, 5, 8], [2, 4, 5, 8], [2, 4, 5, 8], [], []]";
	(void)state;
	assert_int_equal(flops("aten::_scaled_dot_product_flash_attention_for_cpu", qkv, "[]"), 2 * 2 * 4 * 5 * 5 * 16);
	assert_int_equal(flops("aten::_scaled_dot_product_flash_attention_for_cpu_backward",
			       "[[2, 4, 5, 8], [2, 4, 5, 8], [2, 4, 5, 8], [2, 4, 5, 8]]", "[]"),
			 2 * 2 * 4 * 5 * 5 * 40);
	assert_int_equal(flops("aten::_scaled_mm", "[[5, 6], [6, 7], [], [], [], []]", "[]"), 420);
	assert_int_equal(flops("aten::convolution", "[[2, 3, 10], [4, 3, 3], [], [], [], [], [], [], []]",
			       "[\"\", \"\", \"\", \"[1]\", \"[0]\", \"[1]\", \"False\", \"[0]\", \"1\"]"),
			 2 * 8 * 3 * 2 * 4 * 3);
	assert_int_equal(
		flops("aten::convolution_backward",
		      "[[2, 4, 8], [2, 3, 10], [4, 3, 3], [], [], [], [], [], [], [], []]",
		      "[\"\", \"\", \"\", \"[4]\", \"[1]\", \"[0]\", \"[1]\", \"False\", \"[0]\", \"1\", \"[True, True, True]\"]"),
		2 * 2 * 8 * 3 * 2 * 4 * 3);
}

/* What the operators above call, called by a program itself: sdpa_flop_count and sdpa_backward_flop_count for 4 heads of 5 places that look at 6, and
 * conv_flop_count. The kernels' functions have the heads behind the places. */
static void test_kernels(void **state)
{
	static const char forward[] = "[[2, 5, 4, 8], [2, 6, 2, 8], [2, 6, 2, 7], [], [], [], [], [], [], []]";
	static const char backward[] =
		"[[2, 5, 4, 7], [2, 5, 4, 8], [2, 6, 2, 8], [2, 6, 2, 7], [], [2, 4, 5], [], [], [], []]";
	const int64_t pairs = 2 * 4 * 5 * 6;
	(void)state;
	assert_int_equal(flops("aten::_flash_attention_forward", forward, "[]"), 2 * pairs * (8 + 7));
	assert_int_equal(flops("aten::_efficient_attention_forward", forward, "[]"), 2 * pairs * (8 + 7));
	assert_int_equal(flops("aten::_flash_attention_backward", backward, "[]"), 2 * pairs * (3 * 8 + 2 * 7));
	assert_int_equal(flops("aten::_efficient_attention_backward", backward, "[]"), 2 * pairs * (3 * 8 + 2 * 7));
	/* Sequences of several lengths in one: their offsets are not recorded. */
	assert_int_equal(
		flops("aten::_flash_attention_forward", "[[10, 4, 8], [10, 4, 8], [10, 4, 8], [3], [3]]", "[]"), -1);
	assert_int_equal(
		flops("aten::_flash_attention_forward", "[[2, 5, 4, 8], [2, 5, 4, 8], [2, 5, 4, 8], [3], [3]]", "[]"),
		-1);
	assert_int_equal(flops("aten::_efficient_attention_forward",
			       "[[1, 5, 4, 8], [1, 5, 4, 8], [1, 5, 4, 8], [], [3], [3]]", "[]"),
			 -1);
	assert_int_equal(flops("aten::_convolution",
			       "[[2, 3, 10], [4, 3, 3], [], [], [], [], [], [], [], [], [], [], []]",
			       "[\"\", \"\", \"\", \"[1]\", \"[0]\", \"[1]\", \"False\", \"[0]\", \"1\", \"False\"]"),
			 2 * 8 * 3 * 2 * 4 * 3);
	assert_int_equal(flops("aten::cudnn_convolution", "[[2, 3, 11], [4, 3, 3], [], [], [], [], [], [], []]",
			       "[\"\", \"\", \"[1]\", \"[2]\", \"[1]\", \"1\", \"True\"]"),
			 2 * 6 * 3 * 2 * 4 * 3);
}

static void test_none(void **state)
{
	(void)state;
	assert_int_equal(flops("aten::relu", "[[5, 6]]", "[]"), -1);
	assert_int_equal(flops("aten::mm", "[[5, 6], [7, 6]]", "[]"), -1);
	assert_int_equal(flops("aten::mm", "[[5, 6]]", "[]"), -1);
	assert_int_equal(flops("aten::mm", "[[-5, 6], [6, 7]]", "[]"), -1);
	assert_int_equal(flops("aten::mm", "[[9223372036854775807, 6], [6, 7]]", "[]"), -1);
	assert_int_equal(flops("aten::mm", "", ""), -1);
	assert_int_equal(flops("aten::mm", "[[5, 6", ""), -1);
	assert_int_equal(flops("aten::mm", "[[[5, 6], [6, 7]]]", ""), -1);
	assert_int_equal(flops("aten::conv2d", "[[4, 8, 16, 16], [16, 4, 3, 3]]",
			       "[\"\", \"\", \"\", \"[0, 0]\", \"[1]\", \"[1]\"]"),
			 -1);
	assert_int_equal(flops("aten::convolution", "[[2], [3]]", "[]"), -1);
	/* The least number that there is: one less is none. */
	assert_int_equal(flops("aten::conv2d", "[[4, 8, 16, 16], [16, 4, -9223372036854775808, 3]]",
			       "[\"\", \"\", \"\", \"[1]\", \"[1]\", \"[1]\"]"),
			 -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_profiler),
		cmocka_unit_test(test_counter),
		cmocka_unit_test(test_kernels),
		cmocka_unit_test(test_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
