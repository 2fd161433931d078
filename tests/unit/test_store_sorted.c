/* test_store_sorted.c - what is sorted in parts: against qsort() with the place as the last key, which is what keeping the order of equal
 * items means; and the segment that is looked for near the last one, against the one that is looked for everywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/base/array.h"
#include "store/breakdown/activity.h"
#include "store/breakdown/sorted.h"

#include <stdlib.h>
#include <string.h>

#define MOST 2000

struct item {
	int64_t key;
	size_t place;
};

static int64_t draw(uint64_t *seed, int64_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)(*seed >> 33) % below;
}

static int by_key(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	return x->key < y->key ? -1 : x->key > y->key;
}

static int by_key_and_place(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	if (x->key != y->key)
		return by_key(a, b);
	return x->place < y->place ? -1 : x->place > y->place;
}

/* A few sorted parts, with some of the items out of their place. */
static size_t fill(struct item *items, uint64_t *seed)
{
	size_t count = 1 + (size_t)draw(seed, MOST);
	int64_t part = 1 + draw(seed, MOST), out = 1 + draw(seed, 50), step = 1 + draw(seed, 3), key = 0;
	for (size_t i = 0; i < count; i++) {
		key = (int64_t)i % part == 0 ? draw(seed, 100) : key + draw(seed, step);
		items[i] = (struct item){.key = draw(seed, out) ? key : key - draw(seed, 40), .place = i};
	}
	return count;
}

static void test_sorted(void **state)
{
	static struct item items[MOST], expected[MOST];
	uint64_t seed = 1;
	(void)state;
	for (size_t round = 0; round < 3000; round++) {
		size_t count = fill(items, &seed);
		memcpy(expected, items, sizeof items);
		qsort(expected, count, sizeof *expected, by_key_and_place);
		sort_if_needed(items, count, sizeof *items, by_key);
		assert_memory_equal(items, expected, count * sizeof *items);
	}
	sort_if_needed(NULL, 0, sizeof *items, by_key);
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static void test_value_at(void **state)
{
	static int64_t values[MOST], expected[MOST];
	uint64_t seed = 3;
	(void)state;
	for (size_t round = 0; round < 2000; round++) {
		size_t count = 1 + (size_t)draw(&seed, MOST), place = (size_t)draw(&seed, (int64_t)count);
		int64_t most = round % 3 ? 1 + draw(&seed, 300) : INT64_MAX;
		for (size_t i = 0; i < count; i++)
			values[i] = expected[i] = draw(&seed, most);
		qsort(expected, count, sizeof *expected, by_value);
		assert_int_equal(array_value_at(values, count, place), expected[place]);
	}
}

static void test_near(void **state)
{
	static int64_t segments[100];
	struct activity_thread thread = {.segments = segments, .count = 100};
	uint64_t seed = 2;
	size_t near = 0;
	(void)state;
	for (int64_t i = 0; i < 100; i++) {
		segments[i] = activity_pack(thread.end, PHASE_INPUT, DOING_LAUNCH);
		thread.end += 1 + draw(&seed, 10);
	}
	for (size_t round = 0; round < 20000; round++) {
		int64_t time = draw(&seed, thread.end + 20) - 10;
		near = draw(&seed, 10) ? near : (size_t)draw(&seed, 200);
		assert_int_equal(activity_near(&thread, time, &near), activity_at(&thread, time));
		time += draw(&seed, 30);
		assert_int_equal(activity_near(&thread, time, &near), activity_at(&thread, time));
	}
	assert_int_equal(activity_near(&(struct activity_thread){0}, 5, &near), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_sorted), cmocka_unit_test(test_value_at),
					   cmocka_unit_test(test_near)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
