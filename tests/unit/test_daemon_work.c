/* test_daemon_work.c - the pools of threads: what runs, and which thread is taken for one that hangs. */
#include "proto/base/clock.h"
#include "daemon/core/work.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MILLISECOND 1000000ull

static _Atomic int go, wakes;

static void wake(void *context)
{
	(void)context;
	atomic_fetch_add(&wakes, 1);
}

static void nap(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
	nanosleep(&t, NULL);
}

/* Until told to go on; longer than anybody's patience here. */
static int64_t hang(struct work *work)
{
	(void)work;
	while (!atomic_load(&go))
		nap(1);
	return WORK_DONE;
}

/* A parent waits for its vfork child as a thread waits for a disk: the kernel shows it as D. */
static int64_t wait_as_for_a_disk(struct work *work)
{
	(void)work;
	pid_t child = vfork();
	if (child == 0) {
		while (!atomic_load(&go))
			nap(1);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	return WORK_DONE;
}

static void nothing(struct work *work)
{
	(void)work;
}

struct bench {
	struct work_outbox outbox;
	struct work_pool pool;
	struct work work;
};

static void set_up(struct bench *bench, int64_t (*run)(struct work *work))
{
	atomic_store(&go, 0);
	work_outbox_init(&bench->outbox, wake, NULL);
	assert_int_equal(work_pool_init(&bench->pool, 2, 0, &bench->outbox), 0);
	bench->work = (struct work){.run = run, .done = nothing};
	assert_false(work_pool_works(&bench->pool));
	work_submit(&bench->pool, &bench->work);
	for (int i = 0; i < 2000 && !work_pool_works(&bench->pool); i++)
		nap(1);
	assert_true(work_pool_works(&bench->pool));
}

static void take_down(struct bench *bench)
{
	atomic_store(&go, 1);
	for (int i = 0; i < 5000 && work_outbox_run(&bench->outbox) == 0; i++)
		nap(1);
	assert_false(work_pool_works(&bench->pool));
	assert_false(work_pool_hangs(&bench->pool, clock_monotonic() + 3600000 * MILLISECOND, MILLISECOND));
	work_pool_deinit(&bench->pool);
	work_outbox_deinit(&bench->outbox);
}

static void test_a_thread_that_hangs(void **state)
{
	(void)state;
	struct bench bench;
	set_up(&bench, hang);
	uint64_t now = clock_monotonic();
	assert_false(work_pool_hangs(&bench.pool, now, 60000 * MILLISECOND));
	assert_true(work_pool_hangs(&bench.pool, now + 61000 * MILLISECOND, 60000 * MILLISECOND));
	take_down(&bench);
}

static void test_a_thread_that_waits_for_a_disk(void **state)
{
	(void)state;
	struct bench bench;
#ifdef __SANITIZE_THREAD__
	skip(); /* it makes a fork of vfork() */
#endif
	set_up(&bench, wait_as_for_a_disk);
	uint64_t now = clock_monotonic();
	/* Until it really waits. */
	for (int i = 0; i < 5000 && work_pool_hangs(&bench.pool, now + 61000 * MILLISECOND, 60000 * MILLISECOND); i++)
		nap(1);
	assert_false(work_pool_hangs(&bench.pool, now + 61000 * MILLISECOND, 60000 * MILLISECOND));
	/* From when it was last seen so, it has the whole time again. */
	assert_false(work_pool_hangs(&bench.pool, now + 119000 * MILLISECOND, 60000 * MILLISECOND));
	assert_false(work_pool_hangs(&bench.pool, now + 200000 * MILLISECOND, 60000 * MILLISECOND));
	take_down(&bench);
}

/* A thread that hung comes to itself after the loop has ended: what it did is kept, and nobody is woken. */
static void test_nobody_is_woken_at_the_end(void **state)
{
	(void)state;
	struct work_outbox outbox;
	struct work_pool pool;
	struct work late = {.run = hang, .done = nothing};
	atomic_store(&go, 0);
	work_outbox_init(&outbox, wake, NULL);
	assert_int_equal(work_pool_init(&pool, 1, 0, &outbox), 0);
	work_submit(&pool, &late);
	while (!work_pool_works(&pool))
		nap(1);
	int before = atomic_load(&wakes);
	work_outbox_close(&outbox);
	atomic_store(&go, 1);
	work_pool_deinit(&pool);
	assert_int_equal(atomic_load(&wakes), before);
	assert_int_equal(work_outbox_run(&outbox), 1);
	work_outbox_deinit(&outbox);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_thread_that_hangs),
		cmocka_unit_test(test_a_thread_that_waits_for_a_disk),
		cmocka_unit_test(test_nobody_is_woken_at_the_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
