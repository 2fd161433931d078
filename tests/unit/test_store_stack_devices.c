/* test_store_stack_devices.c - the device time that samples of Python's stacks say was launched from a line, of rows that are written here. */
#include "store/derive_stacks.h"
#include "one_store.h"

/* Thread 1 has an operator from 100 to 200 that launched 5000 ns, with one in it that did so; one in a range, from 300 to 400, that launched 40 ns;
 * one that launched nothing; and a call in no operator, from 800 to 810, that launched 30 ns. Thread 2 has an operator that is open all the time. */
#define RECORDS                                                                                                               \
	"INSERT INTO steps (step, flags, start, duration, number, thread, source, collectors) VALUES (1, 0, 0, 1000, 1, 1, "  \
	"1, 0); "                                                                                                             \
	"INSERT INTO strings (id, text) VALUES (1, 'f'), (2, 'a.py'); "                                                       \
	"INSERT INTO stacks (flags, id, parent, function, file, line, first_line) VALUES (0, 1, 0, 1, 2, 10, 1), (0, 2, 0, "  \
	"1, 2, 20, 1), (0, 3, 0, 1, 2, 30, 1), (0, 4, 0, 1, 2, 40, 1); "                                                      \
	"INSERT INTO ranges (step, flags, start, duration, self, id, thread, depth, source) VALUES (1, 0, 290, 200, 0, 9, "   \
	"1, 0, 1); "                                                                                                          \
	"INSERT INTO operators (step, flags, start, duration, self, id, parent, name, thread, depth, scope, sequence) "       \
	"VALUES (1, 0, 100, 100, 0, 1, NULL, 1, 1, 0, 0, -1), (1, 0, 150, 10, 0, 2, 1, 1, 1, 1, 0, -1), (1, 0, 300, 100, 0, " \
	"3, 9, 1, 1, 1, 0, -1), (1, 0, 500, 100, 0, 4, NULL, 1, 1, 0, 0, -1), (1, 0, 0, 1000, 0, 5, NULL, 1, 2, 0, 0, -1); "  \
	"INSERT INTO range_devices (id, self, total, operations) VALUES (1, 0, 5000, 1), (2, 5000, 5000, 1), (3, 40, 40, "    \
	"1), (5, 1, 100, 1), (9, 0, 40, 1); "                                                                                 \
	"INSERT INTO launches (correlation, api, step, thread, range, start, duration, device_time, operations) VALUES "      \
	"(1, 1, 1, 1, 2, 152, 5, 5000, 1), (2, 2, 1, 1, NULL, 800, 10, 30, 1), (3, NULL, 1, NULL, NULL, NULL, NULL, 77, 1); "
#define SAMPLES                                                                                                              \
	"INSERT INTO samples (step, flags, time, thread, stack, duration, state) VALUES (1, 0, 155, 1, 1, 0, 1), (1, 0, "    \
	"199, 1, 1, 0, 1), (1, 0, 200, 1, 2, 0, 1), (1, 0, 350, 1, 2, 0, 1), (1, 0, 550, 1, 3, 0, 1), (1, 0, 805, 1, 3, 0, " \
	"1), (1, 0, 700, 2, 4, 0, 1)"

static int64_t of_line(int line)
{
	char sql[128];
	snprintf(sql, sizeof sql, "SELECT coalesce(sum(device_estimate), -1) FROM line_totals WHERE line = %d", line);
	return ask(sql);
}

static void test_each_sample_has_the_rate_of_what_it_met(void **state)
{
	(void)state;
	assert_int_equal(store_begin(store), 0);
	store_run(store, RECORDS SAMPLES);
	derive_stacks(store, true);
	assert_int_equal(store->error, 0);
	/* 155 stands for 22 ns behind it and as much before it, as it is the thread's first, 199 for as much before it. 50 ns were launched each ns. */
	int64_t first = ask("SELECT sum(duration) FROM samples WHERE stack = 1");
	assert_in_range(first, 44 + 22, 1000);
	assert_int_equal(of_line(10), first * 50);
	/* At 200 the operator has ended; 350 is in one that launched 0.4 ns each ns. */
	assert_int_equal(of_line(20), ask("SELECT duration * 40 / 100 FROM samples WHERE time = 350"));
	/* 550 met one that launched nothing, 805 a call. */
	assert_int_equal(of_line(30), ask("SELECT duration * 30 / 10 FROM samples WHERE time = 805"));
	assert_int_equal(of_line(40), ask("SELECT duration * 100 / 1000 FROM samples WHERE time = 700"));
	assert_int_equal(ask("SELECT sum(device_estimate) FROM function_totals"),
			 of_line(10) + of_line(20) + of_line(30) + of_line(40));
	assert_int_equal(ask("SELECT count(device) + count(calls) FROM line_totals"), 0);
	store_rollback(store);
}

static void test_what_met_nothing_is_not_0(void **state)
{
	(void)state;
	assert_int_equal(store_begin(store), 0);
	store_run(store, RECORDS
		  "INSERT INTO samples (step, flags, time, thread, stack, duration, state) VALUES (1, 0, 210, 1, "
		  "2, 0, 1), (1, 0, 550, 1, 3, 0, 1)");
	derive_stacks(store, true);
	assert_int_equal(store->error, 0);
	assert_int_equal(ask("SELECT count(*) FROM line_totals"), 2);
	assert_int_equal(ask("SELECT count(device_estimate) FROM line_totals"), 0);
	store_rollback(store);
	/* Devices were not recorded. */
	assert_int_equal(store_begin(store), 0);
	store_run(store, RECORDS SAMPLES);
	derive_stacks(store, false);
	assert_int_equal(ask("SELECT count(device_estimate) FROM line_totals"), 0);
	store_rollback(store);
}

static void test_numbers_beyond_sums(void **state)
{
	(void)state;
	assert_int_equal(store_begin(store), 0);
	store_run(store, RECORDS SAMPLES);
	store_run(
		store,
		"UPDATE range_devices SET total = 9223372036854775807; UPDATE operators SET start = 155, duration = 1 "
		"WHERE id = 1; UPDATE operators SET duration = 9223372036854775807 WHERE id IN (3, 5); UPDATE operators "
		"SET duration = -5 WHERE id = 4; UPDATE operators SET start = -9223372036854775807 - 1, parent = NULL, "
		"duration = 9223372036854775807 WHERE id = 2; UPDATE launches SET device_time = -1");
	derive_stacks(store, true);
	assert_int_equal(store->error, 0);
	assert_int_equal(of_line(10), INT64_MAX);
	store_rollback(store);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_sample_has_the_rate_of_what_it_met),
		cmocka_unit_test(test_what_met_nothing_is_not_0),
		cmocka_unit_test(test_numbers_beyond_sums),
	};
	return cmocka_run_group_tests(tests, make, unmake);
}
