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
		cmocka_unit_test(test_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
