/* test_base_large.c - arrays in files and in memory: what they hold, what of them stays in memory, what a disk says that is full, and that
 * nothing stays behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/base/large.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define LEAST ((size_t)1 << 20)
#define MANY ((size_t)3 << 20) /* of 8 bytes each */

static char folder_path[] = "/var/tmp/profd-large-XXXXXX";
static int folder;

static int entries(const char *path)
{
	DIR *directory = opendir(path);
	int count = 0;
	assert_non_null(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static uint64_t value_of(size_t i)
{
	return i * 0x9e3779b97f4a7c15u;
}

static uint64_t *filled(size_t count)
{
	uint64_t *array = NULL;
	size_t room = 0;
	for (size_t i = 0; i < count; i++) {
		assert_true(LARGE_GROW(array, i, room));
		array[i] = value_of(i);
	}
	return array;
}

static void holds(const uint64_t *array, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (array[i] != value_of(i))
			fail_msg("%zu is another", i);
}

/* Pages of the array that the process has in its own table, in bytes. */
static size_t resident(const void *array, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 0;
	uint64_t entry;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	for (size_t at = 0; at + page <= bytes; at += page) {
		off_t place = (off_t)(((uintptr_t)array + at) / page * sizeof entry);
		assert_int_equal(pread(fd, &entry, sizeof entry, place), sizeof entry);
		count += entry >> 63;
	}
	close(fd);
	return count * page;
}

static void test_memory(void **state)
{
	(void)state;
	int before = entries("/proc/self/fd");
	uint64_t *array = filled(MANY);
	large_rest();
	holds(array, MANY);
	assert_int_equal(entries("/proc/self/fd"), before);
	array = large_fit(array, 1000 * sizeof *array);
	holds(array, 1000);
	large_free(array);
	large_free(NULL);
}

static void test_file(void **state)
{
	(void)state;
	int before = entries("/proc/self/fd");
	large_begin(folder, LEAST);
	uint64_t *array = filled(MANY), *small = filled(1000);
	/* One file, which has no name. */
	assert_int_equal(entries("/proc/self/fd"), before + 1);
	assert_int_equal(entries(folder_path), 2);
	/* It rests whenever it grows. */
	assert_true(resident(array, MANY * sizeof *array) <= LARGE_REST_BYTES);
	holds(array, MANY);
	assert_true(resident(array, MANY * sizeof *array) > LARGE_REST_BYTES);
	large_rest();
	assert_int_equal(resident(array, MANY * sizeof *array), 0);
	holds(array, MANY);
	assert_int_equal(large_end(), 0);
	/* What is there goes on, and nothing new begins. */
	uint64_t *later = filled(MANY);
	assert_int_equal(entries("/proc/self/fd"), before + 1);
	array = large_fit(array, 1000 * sizeof *array);
	holds(array, 1000);
	large_free(array);
	large_free(small);
	large_free(later);
	assert_int_equal(entries("/proc/self/fd"), before);
}

static void test_clear(void **state)
{
	(void)state;
	for (int in_file = 0; in_file < 2; in_file++) {
		if (in_file)
			large_begin(folder, LEAST);
		unsigned char *array = large_get_clear(4 * LEAST, 1);
		for (size_t i = 0; i < 4 * LEAST; i++)
			assert_int_equal(array[i], 0);
		large_free(array);
		size_t room = 7;
		assert_null(large_reserve(0, &room, 8));
		assert_int_equal(room, 0);
		assert_null(large_get(SIZE_MAX / 2, 8));
		assert_int_equal(large_end(), 0);
	}
}

/* A file may not become larger than this: what a full disk says, without one. */
static void test_full(void **state)
{
	(void)state;
	struct rlimit old, limit;
	int before = entries("/proc/self/fd");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = (struct rlimit){.rlim_cur = 12 << 20, .rlim_max = old.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	large_begin(folder, LEAST);
	uint64_t *array = NULL;
	size_t room = 0, count = 0;
	while (count < MANY && LARGE_GROW(array, count, room)) {
		array[count] = value_of(count);
		count++;
	}
	/* It has told so by NULL, and what is there is as it was. */
	assert_true(count > LEAST / sizeof *array && count <= (12 << 20) / sizeof *array);
	holds(array, count);
	assert_null(large_get(MANY, sizeof *array));
	assert_int_equal(large_end(), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	large_free(array);
	assert_int_equal(entries("/proc/self/fd"), before);
}

/* A folder that takes no files: memory does. */
static void test_no_file(void **state)
{
	(void)state;
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	large_begin(proc, LEAST);
	uint64_t *array = filled(MANY);
	large_rest();
	holds(array, MANY);
	large_free(array);
	assert_int_equal(large_end(), 0);
	close(proc);
}

static void *other(void *unused)
{
	int before = entries("/proc/self/fd");
	uint64_t *array = filled(MANY);
	(void)unused;
	assert_int_equal(entries("/proc/self/fd"), before);
	large_free(array);
	return NULL;
}

/* Another thread has named no folder. */
static void test_thread(void **state)
{
	(void)state;
	pthread_t thread;
	large_begin(folder, LEAST);
	assert_int_equal(pthread_create(&thread, NULL, other, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(large_end(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory), cmocka_unit_test(test_file),    cmocka_unit_test(test_clear),
		cmocka_unit_test(test_full),   cmocka_unit_test(test_no_file), cmocka_unit_test(test_thread),
	};
	assert_non_null(mkdtemp(folder_path));
	folder = open(folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder_path);
	return failed;
}
