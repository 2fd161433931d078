/* test_base_sorter.c - any number of records come back in order, whatever goes to the disk; and what a disk that is full
 * leaves of it. */
#include "proto/base/sorter.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct record {
	uint32_t key;
	uint32_t number;
	uint64_t check;
};

static int compare(const void *a, const void *b)
{
	const struct record *x = a, *y = b;
	int order = (x->key > y->key) - (x->key < y->key);
	return order ? order : (x->number > y->number) - (x->number < y->number);
}

static int folder(void)
{
	const char *path = getenv("TMPDIR");
	int fd = open(path ? path : "/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void check_order(struct sorter *sorter, uint32_t count, uint32_t spread, uint64_t sum)
{
	const struct record *record;
	struct record last = {0};
	uint32_t n = 0;
	uint64_t seen = 0;
	while ((record = sorter_next(sorter)) != NULL) {
		assert_true(n == 0 || compare(&last, record) < 0);
		assert_true(record->key < spread);
		assert_true(record->check == record->key * 31ull + record->number);
		last = *record;
		seen += record->check;
		n++;
	}
	assert_int_equal(sorter->error, 0);
	assert_int_equal(n, count);
	assert_true(seen == sum);
	assert_null(sorter_next(sorter));
}

static void sort(uint32_t count, uint32_t spread, size_t memory, int ascending)
{
	struct sorter sorter;
	uint32_t seed = 12345;
	uint64_t sum = 0;
	int fd = folder();
	sorter_init(&sorter, fd, NULL, sizeof(struct record), memory, compare);
	for (uint32_t i = 0; i < count; i++) {
		seed = seed * 1664525u + 1013904223u;
		uint32_t key = ascending ? i * (spread / (count + 1)) : (seed >> 8) % spread;
		struct record record = {key, i, key * 31ull + i};
		sum += record.check;
		assert_int_equal(sorter_add(&sorter, &record), 0);
	}
	/* Twice, and once from the middle. */
	assert_int_equal(sorter_rewind(&sorter), 0);
	check_order(&sorter, count, spread, sum);
	assert_int_equal(sorter_rewind(&sorter), 0);
	for (uint32_t i = 0; i < count / 2; i++)
		assert_non_null(sorter_next(&sorter));
	assert_int_equal(sorter_rewind(&sorter), 0);
	check_order(&sorter, count, spread, sum);
	sorter_deinit(&sorter);
	close(fd);
}

/* Where a user's memory is used up, by this or by other captures, portions are smaller, and the order is the same. */
static void test_memory_used_up(void **state)
{
	(void)state;
	for (uint64_t most = 0; most <= 400000; most += 200000) {
		struct memory memory = {.most = most};
		struct sorter sorter;
		uint64_t sum = 0, largest = 0;
		int fd = folder();
		sorter_init(&sorter, fd, &memory, sizeof(struct record), 8 << 20, compare);
		for (uint32_t i = 0; i < 300000; i++) {
			uint32_t key = (i * 2654435761u) >> 8;
			struct record record = {key, i, key * 31ull + i};
			sum += record.check;
			assert_int_equal(sorter_add(&sorter, &record), 0);
			largest = memory.used > largest ? memory.used : largest;
		}
		assert_true(sorter.fd >= 0 && largest < 1000000);
		assert_int_equal(sorter_rewind(&sorter), 0);
		check_order(&sorter, 300000, 1u << 24, sum);
		sorter_deinit(&sorter);
		assert_true(memory.used == 0);
		close(fd);
	}
}

static void test_in_memory(void **state)
{
	(void)state;
	sort(0, 1, 1 << 20, 0);
	sort(1, 1000, 1 << 20, 0);
	sort(5000, 100, 1 << 20, 0);
	sort(5000, 1u << 31, 1 << 20, 1);
}

static void test_on_disk(void **state)
{
	(void)state;
	/* 4,096 records a portion: none left over, one left over, many portions, many alike. */
	sort(8192, 1u << 24, 65536, 0);
	sort(8193, 1u << 24, 65536, 0);
	sort(100000, 50, 65536, 0);
	sort(100000, 1u << 31, 65536, 1);
	sort(300000, 1u << 24, 16384, 0);
}

static void test_no_disk(void **state)
{
	(void)state;
	struct sorter sorter;
	struct record record = {0};
	sorter_init(&sorter, -1, NULL, sizeof record, 1024, compare);
	int error = 0;
	for (int i = 0; i < 1000 && !error; i++)
		error = sorter_add(&sorter, &record);
	assert_int_equal(error, -EBADF);
	assert_int_equal(sorter_add(&sorter, &record), -EBADF);
	assert_int_equal(sorter_rewind(&sorter), -EBADF);
	assert_null(sorter_next(&sorter));
	sorter_deinit(&sorter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_memory),
		cmocka_unit_test(test_on_disk),
		cmocka_unit_test(test_memory_used_up),
		cmocka_unit_test(test_no_disk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
