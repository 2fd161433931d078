/* test_client_import.c - what an import is made of: numbers as decimals, one number for each text, which operator lies in which. */
#include "proto/base/hash.h"
#include "client/import/decimal.h"
#include "client/import/intern.h"
#include "client/import/nest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_decimals(void **state)
{
	static const struct {
		const char *text;
		int64_t ns; /* INT64_MIN: it is refused */
	} rows[] = {
		{"0", 0},
		{"1", 1000},
		{"1419116104994.671", 1419116104994671},
		{"1751410836000000.1239", 1751410836000000124},
		{"0.0005", 1},
		{"0.0004", 0},
		{"-2.5", -2500},
		{"1.02e3", 1020000},
		{"1.5E-2", 15},
		{"1e-400", 0},
		{"123456789012345678901", INT64_MIN},
		{"1e300", INT64_MIN},
		{"9007199254740993.001", 9007199254740993001},
		{"0.00000000000000000000000001", 0},
		{"100e-5", 1},
		{"", INT64_MIN},
		{"-", INT64_MIN},
		{"1.2.3", INT64_MIN},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		int64_t ns = INT64_MIN;
		bool ok = decimal_read(rows[i].text, strlen(rows[i].text), 3, &ns);
		if (ok != (rows[i].ns != INT64_MIN) || (ok && ns != rows[i].ns))
			fail_msg("%s: %d, %lld", rows[i].text, ok, (long long)ns);
	}
}

static void test_one_number_for_each_text(void **state)
{
	struct intern intern = {0};
	char text[32];
	bool is_new;
	(void)state;
	hash_init();
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 20000; i++) {
			int n = snprintf(text, sizeof text, "text %u", i);
			assert_int_equal(
				intern_id(&intern, intern_key((struct intern_key){0}, text, (size_t)n), &is_new),
				i + 1);
			assert_int_equal(is_new, round == 0);
		}
	}
	/* Where one text ends and the next begins makes a difference. */
	struct intern_key one = intern_key(intern_key((struct intern_key){0}, "ab", 2), "c", 1);
	struct intern_key other = intern_key(intern_key((struct intern_key){0}, "a", 1), "bc", 2);
	assert_true(one.a != other.a || one.b != other.b);
	intern_free(&intern);
}

static struct event_operator closed[16];
static size_t closed_count;

static bool keep(void *context, const union event_any *event)
{
	(void)context;
	closed[closed_count++] = event->operator;
	return true;
}

static void open_one(struct nest *nest, uint32_t thread, uint64_t start, uint64_t end)
{
	union event_any event = {.operator= {
		.head = {.kind = EVENT_OPERATOR}, .start = start, .duration = end - start, .thread = thread} };
	assert_true(nest_open(nest, &event));
}

static void check(size_t i, uint64_t start, uint64_t self, unsigned depth, uint64_t parent)
{
	assert_int_equal(closed[i].start, start);
	assert_int_equal(closed[i].self, self);
	assert_int_equal(closed[i].depth, depth);
	assert_int_equal(closed[i].parent, parent);
}

static void test_nesting(void **state)
{
	struct nest nest = {.closed = keep};
	(void)state;
	closed_count = 0;
	open_one(&nest, 1, 0, 100000);	   /* 1 */
	open_one(&nest, 1, 10000, 40000);  /* 2, in 1 */
	open_one(&nest, 1, 20000, 30000);  /* 3, in 2 */
	open_one(&nest, 1, 50000, 100500); /* 4, in 1, and rounded */
	open_one(&nest, 1, 90000, 200000); /* 5 ends far behind 4 and 1 */
	open_one(&nest, 2, 0, 10);	   /* 6 */
	assert_true(nest_end(&nest));
	assert_int_equal(closed_count, 6);
	check(0, 20000, 10000, 2, 2);
	check(1, 10000, 20000, 1, 1);
	check(2, 50000, 50500, 1, 1);
	check(3, 0, 20000, 0, 0);
	check(4, 90000, 110000, 0, 0);
	check(5, 0, 10, 0, 0);
	nest_free(&nest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decimals),
		cmocka_unit_test(test_one_number_for_each_text),
		cmocka_unit_test(test_nesting),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
