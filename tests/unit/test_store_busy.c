/* test_store_busy.c - each operation of a device counts as what it is. */
#include "one_store.h"
#include "proto/events.h"
#include "store/derive_busy.h"

#include <errno.h>

/* Writes the rows of three operations of one step, the last one of which is of this kind. */
static int write_last(unsigned kind)
{
	struct boundary step = {.start = 0, .end = 1000, .ordinal = 1};
	const struct boundaries boundaries = {.steps = &step, .count = 1};
	const struct busy_skews skews = {0};
	const unsigned kinds[] = {EVENT_KERNEL, EVENT_COPY, kind};
	struct sorter operations;
	busy_init(&operations, folder_fd, NULL);
	for (uint64_t i = 0; i < 3; i++) {
		struct busy_operation one = {
			.start = 100 + i * 100, .end = 150 + i * 100, .step = 1, .kind = kinds[i] & 0xffu};
		assert_int_equal(sorter_add(&operations, &one), 0);
	}
	int error = busy_write(&operations, &boundaries, &skews, store);
	sorter_deinit(&operations);
	return error;
}

static void test_each_kind(void **state)
{
	(void)state;
	const struct {
		unsigned kind;
		const char *counted;
	} kinds[] = {
		{EVENT_KERNEL,
		 "SELECT kernels = 2 AND copies = 1 AND sets = 0 AND graphs = 0 FROM step_devices WHERE stream = -1"},
		{EVENT_COPY,
		 "SELECT kernels = 1 AND copies = 2 AND sets = 0 AND graphs = 0 FROM step_devices WHERE stream = -1"},
		{EVENT_SET,
		 "SELECT kernels = 1 AND copies = 1 AND sets = 1 AND graphs = 0 FROM step_devices WHERE stream = -1"},
		{EVENT_GRAPH_LAUNCH,
		 "SELECT kernels = 1 AND copies = 1 AND sets = 0 AND graphs = 1 FROM step_devices WHERE stream = -1"},
	};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		assert_int_equal(store_begin(store), 0);
		assert_int_equal(write_last(kinds[i].kind), 0);
		assert_int_equal(ask(kinds[i].counted), 1);
		assert_int_equal(ask("SELECT busy FROM step_devices WHERE stream = -1"), 150);
		store_rollback(store);
	}
}

/* A kind that somebody will add some day is no graph. */
static void test_a_kind_that_nobody_counts(void **state)
{
	(void)state;
	assert_int_equal(store_begin(store), 0);
	assert_int_equal(write_last(EVENT_SYNC), -EINVAL);
	assert_string_equal(store->sentence, BUSY_KIND_UNKNOWN);
	store_rollback(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_kind),
		cmocka_unit_test(test_a_kind_that_nobody_counts),
	};
	return cmocka_run_group_tests(tests, make, unmake);
}
