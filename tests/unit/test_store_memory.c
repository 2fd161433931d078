/* test_store_memory.c - what is added up of blocks where their user's memory does not suffice, and of sizes that no sum can hold. What it comes to
 * otherwise is beside a reference in tests/e2e/test_memory_reference.py. */
#include "store/derive_memory.h"
#include "one_store.h"

/* 1,000 operators, each with a block of its own that stays; times go backwards. */
#define RECORDS                                                                                                                   \
	"INSERT INTO steps (step, flags, start, duration, number, thread, source, collectors) VALUES (1, 0, 0, 10, 1, 1, 1, 0), " \
	"(3, 0, 10, 10, 3, 1, 1, 0); "                                                                                            \
	"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO operators (step, flags, "     \
	"start, duration, self, id, name, thread, depth, scope, sequence) SELECT 1, 0, i, 1, 1, i, 1, 1, 0, 0, -1 FROM n; "       \
	"INSERT INTO framework_allocations (step, flags, time, address, bytes, total, reserved, thread, parent, device_type, "    \
	"device, operation, known) SELECT 1, 0, -id, id * 64, 100, 0, 0, 1, id, 0, 255, 1, 1 FROM operators"

static void test_memory_used_up(void **state)
{
	(void)state;
	unsigned refused = 0;
	assert_int_equal(store_begin(store), 0);
	store_run(store, RECORDS);
	assert_int_equal(store->error, 0);
	for (uint64_t most = 1000;; most += 20000) {
		struct memory memory = {.most = most};
		store->memory = &memory;
		struct numbered taken;
		bool done = derive_memory(store, &taken);
		numbered_deinit(&taken);
		store->memory = NULL;
		assert_int_equal(store->error, 0);
		assert_true(memory.used == 0);
		if (done)
			break;
		refused++;
		assert_int_equal(
			ask("SELECT (SELECT count(*) FROM memory_totals) + (SELECT count(*) FROM memory_steps) + "
			    "(SELECT count(*) FROM memory_holders) + (SELECT count(*) FROM memory_leaks)"),
			0);
	}
	assert_true(refused > 10);
	assert_int_equal(ask("SELECT taken_bytes FROM memory_totals"), 100000);
	assert_int_equal(ask("SELECT peak FROM memory_steps"), 100000);
	assert_int_equal(ask("SELECT blocks FROM memory_holders"), 1000);
	assert_int_equal(ask("SELECT blocks FROM memory_leaks"), 1000);
	store_rollback(store);
}

static void test_sizes_beyond_sums(void **state)
{
	(void)state;
	assert_int_equal(store_begin(store), 0);
	store_run(store, RECORDS);
	store_run(
		store,
		"UPDATE framework_allocations SET bytes = -9223372036854775807 - 1, operation = 1 + address / 64 % 2, "
		"total = bytes, known = 1 + address / 64 % 3, time = CASE address / 64 % 5 WHEN 0 THEN bytes ELSE time END");
	assert_int_equal(store->error, 0);
	struct numbered taken;
	assert_true(derive_memory(store, &taken));
	numbered_deinit(&taken);
	assert_int_equal(store->error, 0);
	assert_int_equal(ask("SELECT taken + given_back FROM memory_totals"), 1000);
	store_rollback(store);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_used_up),
		cmocka_unit_test(test_sizes_beyond_sums),
	};
	return cmocka_run_group_tests(tests, make, unmake);
}
