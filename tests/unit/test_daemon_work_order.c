/* test_daemon_work_order.c - whose work a pool takes next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/core/work.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MANY 8

struct piece {
	struct work work;
	char name;
};

static _Atomic int held;
static _Atomic unsigned taken, began;
static char order[2 * MANY + 1]; /* and room for what ends it */

/* Says that it has begun, and holds its thread until it may end. */
static int64_t run(struct work *work)
{
	struct piece *piece = (struct piece *)work;
	order[atomic_fetch_add(&taken, 1)] = piece->name;
	atomic_fetch_add(&began, 1);
	while (atomic_load(&held) > 0)
		usleep(1000);
	atomic_fetch_add(&held, 1);
	return WORK_DONE;
}

static void wait_began(unsigned n)
{
	for (int i = 0; i < 5000 && atomic_load(&began) < n; i++)
		usleep(1000);
	assert_int_equal(atomic_load(&began), n);
}

/* How many threads the pool has now. */
static unsigned threads_of(struct work_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	unsigned running = pool->running;
	pthread_mutex_unlock(&pool->lock);
	return running;
}

/* Two threads have nothing to do, and so many pieces are not due yet. */
static void wait_idle(struct work_pool *pool, unsigned pieces)
{
	bool idle = false;
	for (int i = 0; i < 5000 && !idle; i++) {
		pthread_mutex_lock(&pool->lock);
		idle = pool->idle == 2 && pool->waiting == pieces;
		pthread_mutex_unlock(&pool->lock);
		if (!idle)
			usleep(1000);
	}
	assert_true(idle);
}

static void wake(void *context)
{
	(void)context;
}

/* Two threads both work for one owner, who has much more to do. The next piece is the other owner's, although it came last. */
static void test_who_comes_next(void **state)
{
	(void)state;
	struct work_outbox outbox;
	struct work_pool pool;
	struct piece many[MANY], other = {.name = 'b', .work = {.run = run, .owner = 2}};
	memset(many, 0, sizeof many);
	atomic_store(&held, 1);
	atomic_store(&taken, 0);
	atomic_store(&began, 0);
	work_outbox_init(&outbox, wake, NULL);
	assert_int_equal(work_pool_init(&pool, 2, 0, &outbox), 0);
	for (int i = 0; i < MANY; i++) {
		many[i] = (struct piece){.name = 'a', .work = {.run = run, .owner = 1}};
		work_submit(&pool, &many[i].work);
	}
	wait_began(2);
	work_submit(&pool, &other.work);
	/* One of the two ends; it takes the hold of the others upon itself. */
	atomic_store(&held, 0);
	wait_began(3);
	assert_string_equal(order, "aab");
	while (atomic_load(&began) < MANY + 1)
		atomic_store(&held, 0);
	atomic_store(&held, -1000);
	work_pool_deinit(&pool);
	work_outbox_deinit(&outbox);
}

/* All threads at the work of one owner, which does not end: each other owner's begins all the same, and it alone. */
static void test_nobody_waits_for_another(void **state)
{
	(void)state;
	struct work_outbox outbox;
	struct work_pool pool;
	struct piece many[MANY], others[4] = {{.name = 'b', .work = {.run = run, .owner = 2}},
					      {.name = 'c', .work = {.run = run, .owner = 66}},
					      {.name = 'B', .work = {.run = run, .owner = 2}},
					      {.name = 'd', .work = {.run = run, .owner = 130}}};
	memset(order, 0, sizeof order);
	atomic_store(&held, 1);
	atomic_store(&taken, 0);
	atomic_store(&began, 0);
	work_outbox_init(&outbox, wake, NULL);
	assert_int_equal(work_pool_init(&pool, 2, 0, &outbox), 0);
	work_pool_may_grow(&pool);
	for (int i = 0; i < MANY; i++) {
		many[i] = (struct piece){.name = 'a', .work = {.run = run, .owner = 1}};
		work_submit(&pool, &many[i].work);
	}
	wait_began(2);
	for (unsigned i = 0, expected = 2; i < 4; i++) {
		work_submit(&pool, &others[i].work);
		expected += i != 2; /* who has one running waits for that, or for another thread */
		wait_began(expected);
	}
	assert_string_equal(order, "aabcd");
	usleep(50000);
	assert_int_equal(atomic_load(&began), 5);
	atomic_store(&held, -1000);
	wait_began(MANY + 4);
	for (int i = 0; i < 5000 && threads_of(&pool) > 2; i++)
		usleep(1000);
	assert_int_equal(threads_of(&pool), 2);
	work_pool_deinit(&pool);
	work_outbox_deinit(&outbox);
}

/* Comes again after an hour, if nobody asks before. */
static int64_t run_seldom(struct work *work)
{
	run(work);
	return 3600ll * 1000000000;
}

/* What waits to be due, and is asked for now, waits for no thread that others hold. */
static void test_what_is_kicked_waits_for_nobody(void **state)
{
	(void)state;
	struct work_outbox outbox;
	struct work_pool pool;
	struct piece many[3], other = {.name = 'b', .work = {.run = run_seldom, .owner = 2}};
	memset(order, 0, sizeof order);
	atomic_store(&held, -2);
	atomic_store(&taken, 0);
	atomic_store(&began, 0);
	work_outbox_init(&outbox, wake, NULL);
	assert_int_equal(work_pool_init(&pool, 2, 0, &outbox), 0);
	work_pool_may_grow(&pool);
	wait_idle(&pool, 0);
	work_submit(&pool, &other.work);
	wait_began(1);
	wait_idle(&pool, 1);
	atomic_store(&held, 1);
	for (int i = 0; i < 3; i++) {
		many[i] = (struct piece){.name = 'a', .work = {.run = run, .owner = 1}};
		work_submit(&pool, &many[i].work);
	}
	wait_began(3);
	work_kick(&pool, &other.work);
	wait_began(4);
	assert_string_equal(order, "baab");
	atomic_store(&held, -1000);
	work_pool_deinit(&pool);
	work_outbox_deinit(&outbox);
}

/* What is not due is not taken for its owner's sake, and of one owner what came first comes first. */
static void test_in_order(void **state)
{
	(void)state;
	struct work_outbox outbox;
	struct work_pool pool;
	struct piece pieces[3] = {{.name = '1', .work = {.run = run, .owner = 7}},
				  {.name = '2', .work = {.run = run, .owner = 7}},
				  {.name = '3', .work = {.run = run, .owner = 7}}};
	memset(order, 0, sizeof order);
	atomic_store(&held, 1);
	atomic_store(&taken, 0);
	atomic_store(&began, 0);
	work_outbox_init(&outbox, wake, NULL);
	assert_int_equal(work_pool_init(&pool, 1, 0, &outbox), 0);
	for (int i = 0; i < 3; i++) {
		work_submit(&pool, &pieces[i].work);
		usleep(2000);
	}
	wait_began(1);
	atomic_store(&held, -1000);
	wait_began(3);
	assert_string_equal(order, "123");
	work_pool_deinit(&pool);
	work_outbox_deinit(&outbox);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_comes_next),
		cmocka_unit_test(test_nobody_waits_for_another),
		cmocka_unit_test(test_what_is_kicked_waits_for_nobody),
		cmocka_unit_test(test_in_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
