/* test_inputs.c - inputs written by the agent's side read back as Kineto's JSON texts; what is broken is refused. */
#include "proto/inputs.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FLOAT32 6
#define INT64 4

static struct inputs_text text;
static uint32_t words[LIMIT_INPUTS_WORDS];

static void expect(const struct inputs_writer *writer, const char *dims, const char *types, const char *strides,
		   const char *concrete)
{
	struct inputs_writer copy = *writer;
	uint32_t n = inputs_finish(&copy);
	assert_int_equal(inputs_to_json(words, n, &text), 0);
	assert_string_equal(text.dims, dims);
	assert_string_equal(text.types, types);
	assert_string_equal(text.strides, strides);
	assert_string_equal(text.concrete, concrete);
}

static struct inputs_writer start(uint32_t limit)
{
	struct inputs_writer writer;
	memset(words, 0, sizeof words);
	inputs_init(&writer, words, limit);
	return writer;
}

static void test_convolution(void **state)
{
	(void)state;
	const int64_t sizes[4] = {2, 3, 8, 8}, strides[4] = {192, 64, 8, 1}, one = 4, step = 1;
	struct inputs_writer writer = start(LIMIT_INPUTS_WORDS);
	inputs_put_tensor(&writer, FLOAT32, 0, 4, sizes, strides);
	inputs_put_tensor(&writer, FLOAT32, 0, 1, &one, &step);
	inputs_put_none(&writer);
	uint32_t *list = inputs_list_begin(&writer);
	inputs_put_int(&writer, 1);
	inputs_put_int(&writer, -1);
	inputs_list_end(list, INPUTS_LIST_SCALARS, 2, 0);
	inputs_put_bool(&writer, 0);
	inputs_put_bool(&writer, 2);
	inputs_put_other(&writer, 12);
	expect(&writer, "[[2, 3, 8, 8], [4], [], [], [], [], []]",
	       "[\"float\", \"float\", \"\", \"ScalarList\", \"Scalar\", \"Scalar\", \"\"]",
	       "[[192, 64, 8, 1], [1], [], [], [], [], []]",
	       "[\"\", \"\", \"\", \"[1, -1]\", \"False\", \"True\", \"\"]");
}

static void test_numbers(void **state)
{
	(void)state;
	struct inputs_writer writer = start(LIMIT_INPUTS_WORDS);
	inputs_put_int(&writer, INT64_MIN);
	inputs_put_int(&writer, INT32_MIN);
	inputs_put_int(&writer, (int64_t)1 << 40);
	inputs_put_double(&writer, 2.0);
	inputs_put_double(&writer, 0.1);
	inputs_put_double(&writer, 1e-8);
	inputs_put_double(&writer, 1e20);
	inputs_put_double(&writer, (double)INFINITY);
	inputs_put_double(&writer, (double)NAN);
	expect(&writer, "[[], [], [], [], [], [], [], [], []]",
	       "[\"Scalar\", \"Scalar\", \"Scalar\", \"Scalar\", \"Scalar\", \"Scalar\", \"Scalar\", \"Scalar\", "
	       "\"Scalar\"]",
	       "[[], [], [], [], [], [], [], [], []]",
	       "[\"-9223372036854775808\", \"-2147483648\", \"1099511627776\", \"2.\", \"0.10000000000000001\", "
	       "\"1e-08\", "
	       "\"1e+20\", \"inf\", \"nan\"]");
}

static void test_large_sizes(void **state)
{
	(void)state;
	const int64_t sizes[2] = {(int64_t)1 << 33, 2}, strides[2] = {2, 1};
	struct inputs_writer writer = start(LIMIT_INPUTS_WORDS);
	inputs_put_tensor(&writer, INT64, 1, 2, sizes, strides);
	inputs_put_tensor(&writer, INT64, 1, 2, sizes, NULL);
	inputs_put_tensor(&writer, INT64, 1, 0, NULL, NULL);
	inputs_put_opaque(&writer, INT64);
	expect(&writer, "[[8589934592, 2], [8589934592, 2], [], []]",
	       "[\"long int\", \"long int\", \"long int\", \"\"]", "[[2, 1], [], [], []]", "[\"\", \"\", \"\", \"\"]");
}

static void test_tensor_lists(void **state)
{
	(void)state;
	const int64_t size = 3, step = 1;
	for (uint32_t count = 0; count <= INPUTS_TENSORS_MAX + 1; count += count ? INPUTS_TENSORS_MAX - 1 : 2) {
		struct inputs_writer writer = start(LIMIT_INPUTS_WORDS);
		uint32_t *list = inputs_list_begin(&writer);
		for (uint32_t i = 0; i < count; i++)
			inputs_put_tensor(&writer, FLOAT32, 0, 1, &size, &step);
		inputs_list_end(list, INPUTS_LIST_TENSORS, count, 0);
		if (count == 2)
			expect(&writer, "[[[3], [3]]]", "[\"TensorList\"]", "[[[1], [1]]]", "[\"\"]");
		else
			expect(&writer, "[[]]", "[\"TensorList\"]", "[[]]", "[\"\"]");
	}
	struct inputs_writer writer = start(LIMIT_INPUTS_WORDS);
	uint32_t *list = inputs_list_begin(&writer);
	inputs_put_tensor(&writer, FLOAT32, 0, 1, &size, &step);
	inputs_put_none(&writer);
	inputs_list_end(list, INPUTS_LIST_TENSORS, 2, 0);
	list = inputs_list_begin(&writer);
	uint32_t *inner = inputs_list_begin(&writer);
	inputs_put_int(&writer, 1);
	inputs_list_end(inner, INPUTS_LIST_SCALARS, 1, 0);
	inputs_list_end(list, INPUTS_LIST_GENERIC, 1, 1);
	inputs_put_int(&writer, 5);
	expect(&writer, "[[], [], []]", "[\"\", \"\", \"Scalar\"]", "[[], [], []]", "[\"\", \"\", \"5\"]");
}

/* What does not fit makes the description longer than it may be; nothing is written beyond the room. */
static void test_full(void **state)
{
	(void)state;
	for (uint32_t limit = 2; limit < 60; limit++) {
		const int64_t sizes[3] = {7, 8, 9};
		struct inputs_writer writer = start(limit);
		for (int i = 0; i < 10; i++)
			inputs_put_tensor(&writer, FLOAT32, 0, 3, sizes, NULL);
		assert_int_equal(inputs_finish(&writer), limit < 40 ? limit + 1 : 40);
		for (uint32_t i = limit; i < 60; i++)
			assert_int_equal(words[i], 0);
	}
}

/* An optimizer's operator takes many lists of as many tensors as are described. */
static void test_of_an_optimizer(void **state)
{
	(void)state;
	const int64_t sizes[4] = {64, 3, 7, 7}, strides[4] = {147, 49, 7, 1};
	struct inputs_writer writer = start(LIMIT_INPUTS_WORDS);
	for (int i = 0; i < 7; i++) {
		uint32_t *list = inputs_list_begin(&writer);
		for (uint32_t k = 0; k < INPUTS_TENSORS_MAX; k++)
			inputs_put_tensor(&writer, FLOAT32, 0, 4, sizes, strides);
		inputs_list_end(list, INPUTS_LIST_TENSORS, INPUTS_TENSORS_MAX, 0);
	}
	inputs_put_double(&writer, 0.5);
	assert_int_equal(inputs_to_json(words, inputs_finish(&writer), &text), 0);
	const char *end = "\"TensorList\", \"Scalar\"]";
	assert_string_equal(text.types + strlen(text.types) - strlen(end), end);
}

static void test_longest(void **state)
{
	(void)state;
	/* What makes the longest texts of each kind still fits. */
	struct inputs_writer writer = start(LIMIT_INPUTS_WORDS);
	while (writer.limit - writer.n >= 3)
		inputs_put_double(&writer, -1.2345678901234567e-300);
	assert_int_equal(inputs_to_json(words, inputs_finish(&writer), &text), 0);
	writer = start(LIMIT_INPUTS_WORDS);
	while (writer.n < writer.limit)
		inputs_put_tensor(&writer, 43, 0, 0, NULL, NULL);
	assert_int_equal(inputs_to_json(words, inputs_finish(&writer), &text), 0);
	const int64_t sizes[4] = {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX};
	writer = start(LIMIT_INPUTS_WORDS);
	while (writer.limit - writer.n >= 9)
		inputs_put_tensor(&writer, 43, 0, 4, sizes, sizes);
	assert_int_equal(inputs_to_json(words, inputs_finish(&writer), &text), 0);
}

static void refuse(uint32_t a, uint32_t b, size_t n)
{
	words[0] = a;
	words[1] = b;
	assert_int_equal(inputs_to_json(words, n, &text), -EPROTO);
	assert_string_equal(text.dims, "");
	assert_string_equal(text.concrete, "");
}

static void test_hostile(void **state)
{
	(void)state;
	memset(words, 0, sizeof words);
	refuse(0, 0, 1);						 /* a hole */
	refuse(INPUTS_WORD(15, 0), 0, 1);				 /* no such kind */
	refuse(INPUTS_WORD(INPUTS_TENSOR, 2), 1, 2);			 /* a size is missing */
	refuse(INPUTS_WORD(INPUTS_TENSOR, 0x7f), 1, LIMIT_INPUTS_WORDS); /* rank too high */
	refuse(INPUTS_WORD(INPUTS_INT, 0), 1, 2);			 /* half a number */
	refuse(INPUTS_WORD(INPUTS_DOUBLE, 0), 1, 2);
	refuse(INPUTS_WORD(INPUTS_LIST, INPUTS_LIST_SCALARS << INPUTS_LIST_TYPE_SHIFT | 2), INPUTS_WORD(INPUTS_BOOL, 0),
	       2);
	refuse(INPUTS_WORD(INPUTS_LIST, INPUTS_LIST_SCALARS << INPUTS_LIST_TYPE_SHIFT | 1), INPUTS_WORD(INPUTS_NONE, 0),
	       2);
	refuse(INPUTS_WORD(INPUTS_LIST, 0), 0, 1);			/* no such list */
	refuse(INPUTS_WORD(INPUTS_NONE, 0), 0, LIMIT_INPUTS_WORDS + 1); /* too long */
	for (size_t i = 0; i < LIMIT_INPUTS_WORDS; i++)			/* lists in lists without end */
		words[i] = INPUTS_WORD(INPUTS_LIST, INPUTS_LIST_GENERIC << INPUTS_LIST_TYPE_SHIFT | 1);
	assert_int_equal(inputs_to_json(words, LIMIT_INPUTS_WORDS, &text), -EPROTO);
	assert_int_equal(inputs_to_json(words, 0, &text), 0);
	assert_string_equal(text.dims, "[]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_convolution), cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_large_sizes), cmocka_unit_test(test_tensor_lists),
		cmocka_unit_test(test_full),	    cmocka_unit_test(test_of_an_optimizer),
		cmocka_unit_test(test_longest),	    cmocka_unit_test(test_hostile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
