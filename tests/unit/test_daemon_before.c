/* test_daemon_before.c - what the steps before a capture tell, from pages as an agent writes them. */
#include "daemon/capture/before.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000u

static struct status_page page;

/* So many steps of 2 ms; each n-th of them, and the first five, take 60 ms. */
static const char *tell(uint64_t steps, uint64_t every, uint64_t first, uint64_t count)
{
	static char text[256];
	memset(&page, 0, sizeof page);
	page.steps = steps;
	for (uint64_t i = 2; i <= steps; i++)
		page.ring[i % LIMIT_STATUS_RING] = i <= 5 || (every && i % every == 0) ? 60 * MS : 2 * MS;
	before_tell(&page, first, count, text, sizeof text);
	return text;
}

static void test_before(void **state)
{
	(void)state;
	/* Steps 11 to 74: four of 16. */
	assert_string_equal(tell(80, 16, 75, 5),
			    "4 of the 64 steps before took 60 ms in the mean, 67 % of their time, and none like them "
			    "was recorded: --steps 17 would hold one");
	/* One was recorded. */
	assert_string_equal(tell(100, 16, 75, 6), "");
	/* They are rare, or none; or only the process's begin was slow. */
	assert_string_equal(tell(220, 150, 215, 5), "");
	assert_string_equal(tell(80, 0, 75, 5), "");
	assert_string_equal(tell(30, 0, 12, 5), "");
	/* Too few, or the ring has gone over them; or over what was recorded. */
	assert_string_equal(tell(30, 8, 25, 3), "");
	assert_string_equal(tell(400, 16, 100, 3), "");
	assert_string_equal(tell(400, 16, 130, 300), "");
	/* A page is the job's: it may hold anything. */
	assert_string_equal(tell(0, 16, 1000000, 5), "");
	assert_string_equal(tell(80, 16, 0, 5), "");
	assert_string_equal(tell(80, 16, 75, UINT64_MAX), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_before),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
