/* workers.c - threads that take numbered jobs. The next job's number is the only thing they share. */
#include "workers.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

struct pool {
	worker_job run;
	void *user;
	uint64_t jobs;
	_Atomic uint64_t next;
	_Atomic int result;
};

struct worker {
	struct pool *pool;
	unsigned number;
	pthread_t thread;
};

unsigned workers_count(unsigned wanted)
{
	if (wanted)
		return wanted < WORKERS_MAX ? wanted : WORKERS_MAX;
	cpu_set_t set;
	CPU_ZERO(&set);
	int processors = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
	return processors < 1 ? 1 : processors > 4 ? 4 : (unsigned)processors;
}

static void *work(void *argument)
{
	const struct worker *worker = argument;
	struct pool *pool = worker->pool;
	while (atomic_load(&pool->result) == 0) {
		uint64_t job = atomic_fetch_add(&pool->next, 1);
		if (job >= pool->jobs)
			break;
		int result = pool->run(pool->user, worker->number, job), expected = 0;
		if (result)
			atomic_compare_exchange_strong(&pool->result, &expected, result);
	}
	return NULL;
}

int workers_run(unsigned threads, uint64_t jobs, worker_job run, void *user)
{
	struct pool pool = {.run = run, .user = user, .jobs = jobs};
	struct worker workers[WORKERS_MAX];
	unsigned started = 1;
	/* Signals go to the caller's thread: their handlers are made to interrupt it. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (; started < threads && started < WORKERS_MAX && started < jobs; started++) {
		workers[started] = (struct worker){.pool = &pool, .number = started};
		if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) != 0)
			break;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	workers[0] = (struct worker){.pool = &pool};
	work(&workers[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(workers[i].thread, NULL);
	return atomic_load(&pool.result);
}
