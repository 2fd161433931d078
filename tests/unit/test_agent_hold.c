/* test_agent_hold.c - the step thread stands where it is asked to, and never longer than it may. */
#include "agent/core/hold.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define MILLISECOND 1000000u

static atomic_int over;
static atomic_uint boundaries;

/* Steps of a millisecond. */
static void *steps(void *unused)
{
	while (!over) {
		struct timespec nap = {0, MILLISECOND};
		nanosleep(&nap, NULL);
		atomic_fetch_add(&boundaries, 1);
		if (hold_wanted())
			hold_stand();
	}
	return unused;
}

static void test_nobody_steps(void **state)
{
	(void)state;
	assert_int_equal(hold_ask(0), 0);
	assert_int_equal(hold_ask(5 * MILLISECOND), 0);
	assert_false(hold_wanted());
	hold_release();
	assert_false(hold_wanted());
}

static void test_it_stands(void **state)
{
	pthread_t thread;
	(void)state;
	over = 0;
	assert_int_equal(pthread_create(&thread, NULL, steps, NULL), 0);
	for (unsigned i = 0; i < 20; i++) {
		while (!hold_ask(1000u * MILLISECOND))
			;
		unsigned before = boundaries;
		struct timespec nap = {0, 3 * MILLISECOND};
		nanosleep(&nap, NULL);
		/* It may have gone on where this thread got no processor for so long. */
		assert_true(boundaries == before || !hold_wanted());
		hold_release();
		while (boundaries == before) {
			nap.tv_nsec = MILLISECOND;
			nanosleep(&nap, NULL);
		}
	}
	over = 1;
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Whoever asked has gone. */
static void test_nobody_lets_it_go(void **state)
{
	(void)state;
	hold_begin();
	assert_true(hold_wanted());
	hold_stand();
	assert_false(hold_wanted());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_steps),
		cmocka_unit_test(test_it_stands),
		cmocka_unit_test(test_nobody_lets_it_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
