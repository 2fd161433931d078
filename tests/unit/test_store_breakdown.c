/* test_store_breakdown.c - what is said of steps that are left out of the median. */
#include "store/breakdown/breakdown.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define STEPS 5
#define MS 1000000

static struct breakdown_step steps[STEPS];
static const struct breakdown breakdown = {.steps = steps, .step_count = STEPS};

static int begin(void **state)
{
	(void)state;
	memset(steps, 0, sizeof steps);
	return 0;
}

static void check(const char *expected)
{
	char text[BREAKDOWN_SENTENCE];
	breakdown_tell_left_out(&breakdown, 0, STEPS, text);
	assert_string_equal(text, expected);
}

static void test_one(void **state)
{
	(void)state;
	check("");
	steps[2].host[HOST_VALIDATION] = 212 * MS;
	check("1 of 5 steps holds a validation (212 ms): left out of the median");
	steps[2].compiled = 8 * MS;
	check("1 of 5 steps holds a validation and a compilation (220 ms): left out of the median");
	steps[2].host[HOST_VALIDATION] = 0;
	check("1 of 5 steps holds a compilation by torch.compile (8.00 ms): left out of the median");
}

static void test_several(void **state)
{
	(void)state;
	steps[1].host[HOST_TEST] = 5 * MS;
	steps[4].host[HOST_TEST] = 5 * MS;
	check("2 of 5 steps hold a test (10 ms): left out of the median");
	steps[4].host[HOST_TEST] = 0;
	steps[4].compiled = 15 * MS;
	check("2 of 5 steps hold a test or a compilation (20 ms): left out of the median");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_one, begin),
		cmocka_unit_test_setup(test_several, begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
