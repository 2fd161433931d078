/* test_agent_stamp.c - the line by which the processor's counter becomes CLOCK_MONOTONIC. */
#include "agent/core/stamp.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define MILLISECOND 1000000ull

/* Of a counter of 3.2 GHz. */
#define TICKS(ns) ((uint64_t)(ns)*16 / 5)

#ifdef __x86_64__
static uint64_t told(uint64_t ticks)
{
	return stamp_on_line(atomic_load(&stamp_line.time), (int64_t)(ticks - atomic_load(&stamp_line.ticks)),
			     atomic_load(&stamp_line.rate));
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static void a_line_meets_a_clock_that_changes_its_speed(void **state)
{
	(void)state;
	const uint64_t ticks = 1ull << 62, time = 77ull << 40;
	stamp_end();
	uint64_t wander = 0;
	for (uint64_t ms = 0; ms < 5000; ms += 100) {
		/* From the second second on it gains 20 millionths. */
		if (ms > 2000)
			wander += 100 * MILLISECOND / 1000000 * 20;
		uint64_t now = time + ms * MILLISECOND + wander, at = ticks + TICKS(ms * MILLISECOND);
		uint64_t before = ms > 100 ? told(at) : 0;
		assert_true(stamp_meet(at, now));
		if (ms < 100)
			continue;
		/* Nothing is told twice, and nothing is left out. */
		if (before)
			assert_true(distance(told(at), before) <= 1);
		/* At once it is off by what the clock gained since the last look. */
		assert_true(distance(told(at), now) <= (ms > 2000 ? 2100 : 1));
		if (ms > 4500)
			assert_true(distance(told(at), now) <= 500);
	}
	assert_in_range(stamp_end(), 1900, 2100);
	assert_int_equal(atomic_load(&stamp_line.turn), 0);
}

static void another_clock_ends_the_line(void **state)
{
	(void)state;
	stamp_end();
	for (uint64_t ms = 0; ms <= 200; ms += 100)
		assert_true(stamp_meet(TICKS((1000 + ms) * MILLISECOND), (5000 + ms) * MILLISECOND));
	assert_true(atomic_load(&stamp_line.turn));
	/* The machine slept, and the counter went on. */
	assert_false(stamp_meet(TICKS(9000 * MILLISECOND), 5300 * MILLISECOND));
	assert_int_equal(atomic_load(&stamp_line.turn), 0);
	assert_true(stamp_end() > 1000 * MILLISECOND);
	assert_true(distance(stamp_now(), clock_now()) < MILLISECOND * 100);

	stamp_end();
	assert_true(stamp_meet(TICKS(1000 * MILLISECOND), 5000 * MILLISECOND));
	assert_true(stamp_meet(TICKS(1100 * MILLISECOND), 5100 * MILLISECOND));
	/* A counter that goes back. */
	assert_false(stamp_meet(TICKS(1050 * MILLISECOND), 5200 * MILLISECOND));
	assert_int_equal(atomic_load(&stamp_line.turn), 0);
}

static void just_before_the_line_time_is_not_far_ahead(void **state)
{
	(void)state;
	assert_int_equal(stamp_on_line(1000, -16, (int64_t)5 << 28), 995);
	assert_int_equal(stamp_on_line(1000, 0, (int64_t)5 << 28), 1000);
}

/* A machine of the test's own: each read of the counter or of the clock takes its time. */
static struct {
	uint64_t now, counter_takes, clock_takes;
} machine;

static uint64_t counter_of_machine(void)
{
	machine.now += machine.counter_takes;
	return TICKS(machine.now);
}

static uint64_t clock_of_machine(void)
{
	machine.now += machine.clock_takes;
	return machine.now;
}

static char word_path[] = "/tmp/profd-clocksource-XXXXXX";
static const struct stamp_source sources = {word_path, counter_of_machine, clock_of_machine};

/* Is there a line of a machine whose kernel says it counts by `word`? */
static int has_line(const char *word, uint64_t counter_takes, uint64_t clock_takes)
{
	FILE *file = fopen(word_path, "w");
	assert_non_null(file);
	assert_true(fputs(word, file) >= 0);
	assert_int_equal(fclose(file), 0);
	machine.now = 3600000 * MILLISECOND;
	machine.counter_takes = counter_takes;
	machine.clock_takes = clock_takes;
	stamp_begin_with(&sources);
	/* The first one is laid by the second look. */
	uint64_t due = stamp_follow(machine.now);
	assert_true(due == UINT64_MAX || distance(due, machine.now) <= 10 * MILLISECOND);
	machine.now += 20 * MILLISECOND;
	stamp_follow(machine.now);
	int there = atomic_load(&stamp_line.turn) != 0;
	assert_int_equal(there, due != UINT64_MAX);
	assert_int_equal(stamp_end() != 0, there);
	return there;
}

static void a_line_needs_a_kernel_that_counts_so_and_a_counter_that_is_cheap(void **state)
{
	(void)state;
	int fd = mkstemp(word_path);
	assert_true(fd >= 0);
	close(fd);
	assert_true(has_line("tsc\n", 8, 20));
	/* The kernel has found the counter wrong, or has another one. */
	assert_false(has_line("hpet\n", 8, 20));
	assert_false(has_line("kvm-clock\n", 8, 20));
	assert_false(has_line("tsc-early\n", 8, 20));
	assert_false(has_line("", 8, 20));
	/* A virtual machine that is asked each time that the counter is read. */
	assert_false(has_line("tsc\n", 900, 950 / 2));
	assert_false(has_line("tsc\n", 20, 20));
	assert_true(has_line("tsc\n", 19, 20));
	/* No word at all. */
	unlink(word_path);
	stamp_begin_with(&sources);
	assert_true(stamp_follow(machine.now) == UINT64_MAX);
}

static atomic_int stop;

static void *watch(void *pointer)
{
	uint64_t *backward = pointer, last = 0;
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		uint64_t now = stamp_now();
		if (now < last && last - now > *backward)
			*backward = last - now;
		last = now;
	}
	return NULL;
}

/* The real one, where the kernel counts by it; elsewhere stamp_now() asks the kernel, and all of it holds as well. */
static void stamps_are_the_kernels_time(void **state)
{
	(void)state;
	pthread_t thread;
	uint64_t backward = 0, worst = 0, due = 0, begin = clock_now();
	stamp_begin();
	assert_int_equal(pthread_create(&thread, NULL, watch, &backward), 0);
	while (clock_now() < begin + 600 * MILLISECOND) {
		if (clock_now() >= due)
			due = stamp_follow(clock_now());
		uint64_t before = clock_now(), stamp = stamp_now(), after = clock_now();
		uint64_t off = stamp < before ? before - stamp : stamp > after ? stamp - after : 0;
		worst = off > worst ? off : worst;
	}
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	uint64_t off = stamp_end();
	print_message("off by %llu ns at most, as it says itself %llu\n", (unsigned long long)worst,
		      (unsigned long long)off);
	assert_true(worst < 100000 && off < 100000);
	/* Two lines may differ by what the second bends. */
	assert_true(backward < 1000);
}
#endif

int main(void)
{
#ifdef __x86_64__
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_meets_a_clock_that_changes_its_speed),
		cmocka_unit_test(another_clock_ends_the_line),
		cmocka_unit_test(just_before_the_line_time_is_not_far_ahead),
		cmocka_unit_test(a_line_needs_a_kernel_that_counts_so_and_a_counter_that_is_cheap),
		cmocka_unit_test(stamps_are_the_kernels_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
#else
	return 0;
#endif
}
