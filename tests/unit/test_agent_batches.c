/* test_agent_batches.c - what a batch was for, of loops as the step thread shows them, without torch. wrap: caller_purpose */
#include "agent/steps/batches.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define THREAD 77

enum purpose __wrap_caller_purpose(void);
static enum purpose caller; /* what the functions say that ask for the batches */
static unsigned looks;
static struct status_page page;
static struct batches_seen seen;
static uint64_t now;
static bool under_way; /* a batch, whose end is the next request */

enum purpose __wrap_caller_purpose(void)
{
	looks++;
	return caller;
}

static int begin(void **state)
{
	(void)state;
	batches_forget();
	memset(&page, 0, sizeof page);
	seen = (struct batches_seen){1000, 0};
	caller = PURPOSE_NONE;
	looks = 0;
	under_way = false;
	/* Some time before the first look. */
	now += 1000000000;
	return 0;
}

static uint64_t counted(enum purpose purpose)
{
	return atomic_load(&page.batches[purpose]);
}

/* A batch is asked for, and makes so many nodes and steps. Returns what the one before was for. */
static enum purpose batch(uint64_t nodes, uint64_t steps)
{
	now += 1000000;
	enum purpose ret = batches_next(now, &seen, THREAD, false, &page);
	seen.sequence += nodes;
	seen.steps += steps;
	return ret;
}

/* A pass over a loader with so many batches, of which every `each`th makes a step (0: none); and the request that finds its end. */
static void pass(enum purpose purpose, unsigned batches, uint64_t nodes, unsigned each)
{
	caller = purpose;
	/* Between two passes there is time enough to look again. */
	now += 100000000;
	for (unsigned i = 1; i <= batches; i++)
		batch(nodes, each && i % each == 0);
	batch(0, 0);
}

static void test_without_gradients(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		pass(PURPOSE_NONE, 10, 5, 1);
		pass(PURPOSE_VALIDATION, 20, 0, 0);
	}
	assert_int_equal(counted(PURPOSE_TRAINING), 30);
	/* The last one has not ended. */
	assert_int_equal(counted(PURPOSE_VALIDATION), 2 * 21 + 20);
	assert_int_equal(counted(PURPOSE_INFERENCE), 0);
}

static void test_with_gradients(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		pass(PURPOSE_NONE, 10, 5, 1);
		pass(PURPOSE_VALIDATION, 20, 5, 0);
	}
	assert_int_equal(counted(PURPOSE_TRAINING), 30);
	assert_int_equal(counted(PURPOSE_VALIDATION), 2 * 21 + 20);
}

static void test_accumulation(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		pass(PURPOSE_TRAINING, 10, 5, 4);
		pass(PURPOSE_TEST, 20, 5, 0);
	}
	/* Each pass of the training leaves two batches without a step, and three are usual. So the first two batches of the test might still train, and the
	 * third one, the first in a row that does not, is not counted. Nor is the very last one, which has not ended. */
	assert_int_equal(counted(PURPOSE_TRAINING), 3 * (10 + 2));
	assert_int_equal(counted(PURPOSE_TEST), 3 * (21 - 3) - 1);
	assert_int_equal(counted(PURPOSE_NONE) + counted(PURPOSE_VALIDATION) + counted(PURPOSE_EVALUATION), 0);
}

/* What has such a name and trains. */
static void test_a_test_that_trains(void **state)
{
	(void)state;
	pass(PURPOSE_TEST, 100, 5, 1);
	assert_int_equal(counted(PURPOSE_TRAINING), 100);
	begin(NULL);
	pass(PURPOSE_TEST, 100, 5, 4);
	assert_int_equal(counted(PURPOSE_TRAINING), 100);
}

/* No function says anything: an optimizer that nobody sees may step. */
static void test_nobody_says(void **state)
{
	(void)state;
	pass(PURPOSE_NONE, 10, 5, 1);
	pass(PURPOSE_NONE, 20, 5, 0);
	assert_int_equal(counted(PURPOSE_TRAINING), 30);
	/* Looks are rare: 20 ms passed. */
	assert_in_range(looks, 1, 4);
	/* And a job of which no step is seen at all. */
	begin(NULL);
	for (int i = 0; i < 3; i++)
		pass(PURPOSE_VALIDATION, 20, 5, 0);
	assert_int_equal(counted(PURPOSE_TRAINING), 60);
}

static void test_a_loop_looks_nowhere(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++)
		batch(5, 1);
	assert_int_equal(looks, 0);
}

/* A step that is left out once (a GradScaler's first ones) is nothing. */
static void test_a_step_is_left_out(void **state)
{
	(void)state;
	caller = PURPOSE_TRAINING;
	for (int i = 1; i <= 100; i++)
		batch(5, i % 10 != 0);
	batch(0, 0);
	assert_int_equal(counted(PURPOSE_TRAINING), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_without_gradients, begin),
		cmocka_unit_test_setup(test_with_gradients, begin),
		cmocka_unit_test_setup(test_accumulation, begin),
		cmocka_unit_test_setup(test_a_test_that_trains, begin),
		cmocka_unit_test_setup(test_nobody_says, begin),
		cmocka_unit_test_setup(test_a_loop_looks_nowhere, begin),
		cmocka_unit_test_setup(test_a_step_is_left_out, begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
