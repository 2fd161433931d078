/* test_quantity.c - how people write numbers, durations and sizes. */
#include "proto/quantity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_numbers(void **state)
{
	static const char *const wrong[] = {"", "-1", "+1", " 1", "1 ", "0x10", "1.0", "1e3", "9223372036854775808"};
	int64_t value = -7;

	(void)state;
	assert_true(quantity_number("007", &value) && value == 7);
	assert_true(quantity_number("9223372036854775807", &value) && value == INT64_MAX);
	value = -7;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_false(quantity_number(wrong[i], &value));
	assert_int_equal(value, -7);
}

static void test_durations(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} right[] = {
		{"0", 0},
		{"2s", 2000000000},
		{"500ms", 500000000},
		{"1m30s", 90000000000},
		{"1.5h", 5400000000000},
		{"250us", 250000},
		{"10ns", 10},
		{"1min", 60000000000},
		{"1h1m1s1ms1us1ns", 3661001001001},
		{".5s", 500000000},
		{"0.1s", 100000000},
		{"30d", 2592000000000000},
		{"9007199254740993ns", 9007199254740993}, /* 2^53 + 1: no double has it */
		{"9223372036854775807ns", INT64_MAX},
		{"9223372036s854775807ns", INT64_MAX},
		{"1.0000000000000000000000000001s", 1000000000},
	};
	static const char *const wrong[] = {"",
					    "2",
					    "s",
					    "-1s",
					    "1 s",
					    "1sec",
					    "1m30",
					    "1..5s",
					    "1w",
					    "soon",
					    "1e3s",
					    "9999999999h",
					    "inf",
					    "nan",
					    "9223372036854775807.5ns",
					    "9223372036s854775808ns"};
	int64_t ns = -7;

	(void)state;
	for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
		assert_true(quantity_duration(right[i].text, &ns));
		assert_int_equal(ns, right[i].ns);
	}
	ns = -7;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_false(quantity_duration(wrong[i], &ns));
	assert_int_equal(ns, -7);
}

static void test_sizes(void **state)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} right[] = {
		{"0", 0},
		{"4096", 4096},
		{"4096B", 4096},
		{"64k", 65536},
		{"64M", 67108864},
		{"64MiB", 67108864},
		{"64MB", 67108864},
		{"1G", 1073741824},
		{"1.5K", 1536},
		{"1T", 1099511627776},
		{"9007199254740993", 9007199254740993},
		{"8796093022207K", 9007199254739968},
		{"9223372036854775807", INT64_MAX},
		{"0.0009765625K", 1},
	};
	static const char *const wrong[] = {
		"", "M", "-1", "1Q", "1MM", "1 M", "1Mib", "1BB", "99999999T", "9223372036854775808", "8388608T"};
	int64_t bytes = -7;

	(void)state;
	for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
		assert_true(quantity_size(right[i].text, &bytes));
		assert_int_equal(bytes, right[i].bytes);
	}
	bytes = -7;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		assert_false(quantity_size(wrong[i], &bytes));
	assert_int_equal(bytes, -7);
}

/* As long as a line may be, and longer than what a double's exponent holds. */
static void test_long_fractions(void **state)
{
	char text[1000] = "1.";
	int64_t value = -7;

	(void)state;
	memset(text + 2, '0', 500);
	memcpy(text + 502, "1s", 3);
	assert_true(quantity_duration(text, &value) && value == 1000000000);
	text[503] = 0;
	assert_true(quantity_size(text, &value) && value == 1);
	memset(text, '9', 500);
	assert_false(quantity_size(text, &value));
}

static void test_distance(void **state)
{
	char word[101] = {0};

	(void)state;
	assert_int_equal(word_distance("trigger", "trigger", 2), 0);
	assert_int_equal(word_distance("triger", "trigger", 2), 1);
	assert_int_equal(word_distance("shwo", "show", 2), 2);
	assert_int_equal(word_distance("", "ps", 2), 2);
	assert_int_equal(word_distance("export", "rm", 2), 3);
	memset(word, 'a', sizeof word - 1);
	assert_int_equal(word_distance(word, "a", 2), 3);
	assert_int_equal(word_distance("a", word, 2), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),	       cmocka_unit_test(test_durations), cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_long_fractions), cmocka_unit_test(test_distance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
