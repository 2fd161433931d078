/* test_store_sums.c - more groups than memory is given to come out right, and sums that are too large stay at the largest. */
#include "proto/base/clock.h"
#include "one_store.h"
#include "store/rows.h"
#include "store/sums.h"

static void test_many_groups(void **state)
{
	(void)state;
	struct sums sums;
	const uint32_t groups = 300000;
	assert_int_equal(store_begin(store), 0);
	sums_init(&sums, NULL);
	for (unsigned round = 1; round <= 2; round++) {
		for (uint32_t i = 0; i < groups; i++) {
			struct sum key = {.table = SUM_KERNELS, .a = i, .b = i % 3, .c = i % 5, .step = i % 7};
			sums_add(&sums, store, &key, i + round, 1, i % 2);
		}
	}
	assert_int_equal(sums.error, 0);
	assert_int_equal(sums_write(&sums, store), 0);
	assert_true(ask("SELECT count(*) FROM temp.sums") > groups);
	store_run(store,
		  "CREATE TEMP TABLE one AS SELECT a, sum(calls) AS calls, sum(total) AS total, sum(extra) AS extra, "
		  "min(min) AS min, max(max) AS max FROM temp.sums GROUP BY tab, a, b, c, step");
	assert_int_equal(ask("SELECT count(*) FROM one"), groups);
	assert_int_equal(ask("SELECT count(*) FROM one WHERE calls != 2 OR extra != 2"), 0);
	assert_int_equal(
		ask("SELECT count(*) FROM one WHERE a % 2 AND (total != 2 * a + 3 OR min != a + 1 OR max != a + 2)"),
		0);
	/* What had no time has no shortest one. */
	assert_int_equal(
		ask("SELECT count(*) FROM one WHERE a % 2 = 0 AND (total != 0 OR min IS NOT NULL OR max IS NOT NULL)"),
		0);
	sums_deinit(&sums);
	store_rollback(store);
}

/* Keys that all fall on one place of the table, for who knows where keys fall: these did, when that was no secret. */
static void test_colliding_keys(void **state)
{
	(void)state;
	struct sums sums;
	const uint64_t first = 0x9e3779b97f4a7c15u, second = 0xc2b2ae3d27d4eb4fu;
	uint64_t inverse = second;
	for (int i = 0; i < 6; i++)
		inverse *= 2 - second * inverse;
	assert_int_equal(store_begin(store), 0);
	sums_init(&sums, NULL);
	uint64_t began = clock_thread();
	for (uint32_t i = 1; i <= 60000; i++) {
		uint64_t rest = (((uint64_t)i << 32) * first - SUM_KERNELS) * inverse;
		struct sum key = {.table = SUM_KERNELS, .a = i, .b = (uint32_t)(rest >> 32), .c = (uint32_t)rest};
		sums_add(&sums, store, &key, 1, 1, true);
	}
	/* Two thousand million looks, if it were so. */
	assert_true(clock_thread() - began < 1000000000u);
	assert_int_equal(sums.count, 60000);
	sums_deinit(&sums);
	store_rollback(store);
}

/* Groups for which their user's memory has no room go to the file, in more rows of one key. */
static void test_memory_used_up(void **state)
{
	(void)state;
	struct sums sums;
	struct memory memory = {.most = 300000};
	assert_int_equal(store_begin(store), 0);
	sums_init(&sums, &memory);
	for (uint32_t i = 0; i < 40000; i++) {
		struct sum key = {.table = SUM_SETS, .a = i % 10000};
		sums_add(&sums, store, &key, 1, 0, true);
		assert_true(memory.used <= memory.most);
	}
	assert_int_equal(sums_write(&sums, store), 0);
	assert_int_equal(ask("SELECT sum(calls) FROM temp.sums WHERE tab = 3"), 40000);
	assert_int_equal(ask("SELECT count(DISTINCT a) FROM temp.sums WHERE tab = 3"), 10000);
	sums_deinit(&sums);
	assert_true(memory.used == 0);
	store_rollback(store);
}

static void test_overflow(void **state)
{
	(void)state;
	struct sums sums;
	struct sum key = {.table = SUM_SETS, .a = 1};
	assert_int_equal(store_begin(store), 0);
	sums_init(&sums, NULL);
	for (int i = 0; i < 5; i++)
		sums_add(&sums, store, &key, UINT64_MAX / 3, UINT64_MAX / 2, true);
	assert_int_equal(sums_write(&sums, store), 0);
	assert_true(ask("SELECT total FROM temp.sums") == INT64_MAX);
	assert_true(ask("SELECT extra FROM temp.sums") == INT64_MAX);
	sums_deinit(&sums);
	store_rollback(store);
}

static void test_rows(void **state)
{
	(void)state;
	struct rows rows;
	assert_int_equal(store_begin(store), 0);
	assert_int_equal(rows_begin(&rows, store, "range_devices", 6), 0);
	for (int64_t i = 1; i <= 10000; i++) {
		const int64_t values[] = {i, 2 * i, 3 * i, 1, i % 2 ? ROWS_NULL : -i, 0};
		rows_add(&rows, values);
	}
	/* An id that is there already is not taken twice. */
	const int64_t again[] = {7, 0, 0, 0, 0, 0};
	rows_add(&rows, again);
	assert_int_equal(rows_end(&rows), 0);
	assert_int_equal(ask("SELECT count(*) FROM range_devices"), 10000);
	assert_int_equal(ask("SELECT count(*) FROM range_devices WHERE self != 2 * id OR total != 3 * id"), 0);
	assert_int_equal(ask("SELECT count(*) FROM range_devices WHERE first IS NOT CASE id % 2 WHEN 0 THEN -id END"),
			 0);
	store_rollback(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_groups),    cmocka_unit_test(test_overflow),
		cmocka_unit_test(test_colliding_keys), cmocka_unit_test(test_memory_used_up),
		cmocka_unit_test(test_rows),
	};
	return cmocka_run_group_tests(tests, make, unmake);
}
