/* test_daemon_eviction.c - who goes when a budget is exceeded: too old, over a user's budget, over the whole's; never what is
 * pinned or about to be read, and never one user's few captures for another's many. */
#include "daemon/catalogue/eviction.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROOM 64

/* One capture a second from second 1 on; `bytes` each. */
static void fill(struct kept *rows, size_t count, const uid_t *uids, uint64_t bytes)
{
	for (size_t i = 0; i < count; i++)
		rows[i] = (struct kept){
			.number = i + 1, .uid = uids[i], .bytes = bytes, .finished = (i + 1) * 1000000000u};
}

static size_t choose(struct kept *rows, size_t count, struct eviction_limits limits, struct eviction evictions[ROOM],
		     struct eviction_rest *rest)
{
	if (!limits.now)
		limits.now = (count + 1) * 1000000000u;
	return eviction_choose(rows, count, &limits, evictions, ROOM, rest);
}

static void check(const struct kept *rows, const struct eviction *evictions, size_t n, const uint64_t *numbers,
		  size_t count)
{
	assert_int_equal(n, count);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(rows[evictions[i].index].number, numbers[i]);
}
#define CHECK(...)                                                                                                     \
	check(rows, evictions, n, (const uint64_t[]){__VA_ARGS__},                                                     \
	      sizeof(const uint64_t[]){__VA_ARGS__} / sizeof(uint64_t))

static void no_limit_no_eviction(void **state)
{
	(void)state;
	struct kept rows[3];
	struct eviction evictions[ROOM];
	struct eviction_rest rest;
	fill(rows, 3, (const uid_t[]){1, 1, 2}, 100);
	assert_int_equal(choose(rows, 3, (struct eviction_limits){0}, evictions, &rest), 0);
	assert_false(rest.held || rest.more || rest.next_at);
	assert_int_equal(
		choose(rows, 0, (struct eviction_limits){.bytes = 1, .age = 1, .missing = 5}, evictions, &rest), 0);
	assert_int_equal(choose(rows, 3, (struct eviction_limits){.bytes = 300, .captures = 3, .bytes_user = 200},
				evictions, &rest),
			 0);
}

static void oldest_of_a_user_over_budget(void **state)
{
	(void)state;
	struct kept rows[5];
	struct eviction evictions[ROOM];
	struct eviction_rest rest;
	fill(rows, 5, (const uid_t[]){2, 1, 1, 1, 1}, 100);
	size_t n = choose(rows, 5, (struct eviction_limits){.bytes_user = 250}, evictions, &rest);
	CHECK(2, 3);
	assert_int_equal(evictions[0].reason, EVICTION_BYTES_USER);
	assert_int_equal(evictions[0].had, 400);
	assert_int_equal(evictions[1].had, 300);
	fill(rows, 5, (const uid_t[]){2, 1, 1, 1, 1}, 100);
	n = choose(rows, 5, (struct eviction_limits){.captures_user = 1}, evictions, &rest);
	CHECK(2, 3, 4);
	assert_int_equal(evictions[2].reason, EVICTION_CAPTURES_USER);
	assert_int_equal(evictions[2].had, 2);
}

/* User 2 has the two oldest captures; user 1's flood pays for itself until it is down to the same size. */
static void a_flood_pays_for_itself(void **state)
{
	(void)state;
	struct kept rows[10];
	struct eviction evictions[ROOM];
	struct eviction_rest rest;
	static const uid_t uids[] = {2, 2, 1, 1, 1, 1, 1, 1, 1, 1};
	fill(rows, 10, uids, 100);
	size_t n = choose(rows, 10, (struct eviction_limits){.bytes = 500}, evictions, &rest);
	CHECK(3, 4, 5, 6, 7);
	assert_int_equal(evictions[0].reason, EVICTION_BYTES);
	/* Of equals the one whose oldest is older. */
	fill(rows, 10, uids, 100);
	n = choose(rows, 10, (struct eviction_limits){.captures = 2}, evictions, &rest);
	CHECK(3, 4, 5, 6, 7, 8, 1, 9);
	assert_int_equal(evictions[7].reason, EVICTION_CAPTURES);
	/* By bytes it is who has most bytes, not who has most captures. */
	fill(rows, 10, uids, 1);
	rows[0].bytes = 1000;
	n = choose(rows, 10, (struct eviction_limits){.bytes = 900}, evictions, &rest);
	CHECK(1);
}

static void room_for_the_disk(void **state)
{
	(void)state;
	struct kept rows[6];
	struct eviction evictions[ROOM];
	struct eviction_rest rest;
	fill(rows, 6, (const uid_t[]){2, 1, 1, 1, 1, 1}, 100);
	size_t n = choose(rows, 6, (struct eviction_limits){.missing = 150}, evictions, &rest);
	CHECK(2, 3);
	assert_int_equal(evictions[0].reason, EVICTION_FREE_SPACE);
	assert_int_equal(evictions[0].had, 150);
	assert_int_equal(evictions[1].had, 50);
	/* All that there is, and no more than that; what has no file makes no room. */
	fill(rows, 6, (const uid_t[]){2, 1, 1, 1, 1, 1}, 0);
	rows[3].bytes = 10;
	n = choose(rows, 6, (struct eviction_limits){.missing = 1000}, evictions, &rest);
	CHECK(2, 3, 4);
	assert_int_equal(rest.missing, 990);
	/* What goes for another reason makes room as well. */
	fill(rows, 6, (const uid_t[]){2, 1, 1, 1, 1, 1}, 100);
	n = choose(rows, 6, (struct eviction_limits){.missing = 150, .captures_user = 3}, evictions, &rest);
	CHECK(2, 3);
	assert_int_equal(evictions[1].reason, EVICTION_CAPTURES_USER);
	assert_int_equal(rest.missing, 0);
}

static void age(void **state)
{
	(void)state;
	struct kept rows[4];
	struct eviction evictions[ROOM];
	struct eviction_rest rest;
	fill(rows, 4, (const uid_t[]){1, 2, 1, 2}, 100);
	struct eviction_limits limits = {.age = 2000000000u, .now = 4500000000u};
	size_t n = choose(rows, 4, limits, evictions, &rest);
	CHECK(1, 2);
	assert_int_equal(evictions[0].reason, EVICTION_AGE);
	assert_int_equal(evictions[0].had, 3500000000u);
	assert_int_equal(rest.next_at, 5000000000u);
	/* To the nanosecond; and a clock that was set back deletes nothing. */
	fill(rows, 4, (const uid_t[]){1, 2, 1, 2}, 100);
	limits.now = 3000000000u;
	n = choose(rows, 4, limits, evictions, &rest);
	CHECK(1);
	fill(rows, 4, (const uid_t[]){1, 2, 1, 2}, 100);
	limits.now = 1;
	assert_int_equal(choose(rows, 4, limits, evictions, &rest), 0);
	assert_int_equal(rest.next_at, 3000000000u);
	fill(rows, 4, (const uid_t[]){1, 2, 1, 2}, 100);
	limits = (struct eviction_limits){.age = UINT64_MAX - 5, .now = UINT64_MAX - 1};
	assert_int_equal(choose(rows, 4, limits, evictions, &rest), 0);
	assert_int_equal(rest.next_at, UINT64_MAX);
}

static void pinned_ones_stay_and_count(void **state)
{
	(void)state;
	struct kept rows[5];
	struct eviction evictions[ROOM];
	struct eviction_rest rest;
	static const uid_t uids[] = {1, 1, 1, 1, 1};
	fill(rows, 5, uids, 100);
	rows[0].pinned = rows[2].pinned = true;
	size_t n = choose(rows, 5, (struct eviction_limits){.bytes_user = 300}, evictions, &rest);
	CHECK(2, 4);
	for (size_t i = 0; i < 5; i++) {
		fill(rows, 5, uids, 100);
		for (size_t k = 0; k < 5; k++)
			rows[k].pinned = true;
		struct eviction_limits limits = {
			.bytes = 1, .bytes_user = 1, .captures = 1, .captures_user = 1, .age = 1, .missing = 1000};
		assert_int_equal(choose(rows, 5, limits, evictions, &rest), 0);
		assert_int_equal(rest.next_at, 0);
	}
}

static void held_ones_wait(void **state)
{
	(void)state;
	struct kept rows[3];
	struct eviction evictions[ROOM];
	struct eviction_rest rest;
	static const uid_t uids[] = {1, 1, 1};
	fill(rows, 3, uids, 100);
	rows[0].held = true;
	assert_int_equal(
		choose(rows, 3, (struct eviction_limits){.captures = 1, .age = 1, .bytes_user = 1}, evictions, &rest),
		0);
	assert_true(rest.held);
	fill(rows, 3, uids, 100);
	rows[2].held = true;
	size_t n = choose(rows, 3, (struct eviction_limits){.bytes = 1}, evictions, &rest);
	CHECK(1, 2);
	assert_true(rest.held);
	fill(rows, 3, uids, 100);
	rows[2].held = true;
	n = choose(rows, 3, (struct eviction_limits){.bytes = 100}, evictions, &rest);
	CHECK(1, 2);
	assert_false(rest.held);
}

/* For the disk younger ones of the same user go in their place, and never another user's. A minute later they go themselves. */
static void held_ones_keep_no_disk_full(void **state)
{
	(void)state;
	struct kept rows[4];
	struct eviction evictions[ROOM];
	struct eviction_rest rest;
	static const uid_t uids[] = {1, 2, 1, 1};
	fill(rows, 4, uids, 100);
	rows[0].held = true;
	size_t n = choose(rows, 4, (struct eviction_limits){.missing = 150}, evictions, &rest);
	CHECK(3, 4);
	assert_true(rest.held);
	assert_int_equal(rest.missing, 0);
	fill(rows, 4, uids, 100);
	rows[0].bytes = 1000;
	rows[0].held = rows[2].held = rows[3].held = true;
	n = choose(rows, 4, (struct eviction_limits){.missing = 150, .now = 60999999999}, evictions, &rest);
	assert_int_equal(n, 0);
	assert_int_equal(rest.missing, 150);
	n = choose(rows, 4, (struct eviction_limits){.missing = 150, .now = 61000000000}, evictions, &rest);
	CHECK(1);
	assert_int_equal(rest.missing, 0);
}

static void no_room_for_more(void **state)
{
	(void)state;
	enum { COUNT = 5 * ROOM };
	static struct kept rows[COUNT];
	static uid_t uids[COUNT];
	struct eviction evictions[ROOM];
	struct eviction_rest rest;
	for (size_t i = 0; i < COUNT; i++)
		uids[i] = (uid_t)(i % 7);
	fill(rows, COUNT, uids, 3);
	assert_int_equal(choose(rows, COUNT, (struct eviction_limits){.captures = 10}, evictions, &rest), ROOM);
	assert_true(rest.more);
	for (size_t i = 0; i < ROOM; i++)
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(evictions[i].index, evictions[k].index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_limit_no_eviction),
		cmocka_unit_test(oldest_of_a_user_over_budget),
		cmocka_unit_test(a_flood_pays_for_itself),
		cmocka_unit_test(room_for_the_disk),
		cmocka_unit_test(age),
		cmocka_unit_test(pinned_ones_stay_and_count),
		cmocka_unit_test(held_ones_wait),
		cmocka_unit_test(held_ones_keep_no_disk_full),
		cmocka_unit_test(no_room_for_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
