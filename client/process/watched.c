/* watched.c - see watched.h. */
#include "watched.h"

#include "client/ui/clock.h"
#include "client/ui/failure.h"
#include "client/ui/text.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A reader that gets this much processor time a second is slow, not blocked; it gets at most N times the usual time. */
#define WORKS_NS 20000000
#define WORKS_MOST 6
/* Ours are below this number. */
#define DESCRIPTORS 1024
/* Side by side. */
#define WORKERS 4 /* that are not held up */
#define WORKERS_MOST 1024
#define WORKER_STACK (1u << 20)
#define HELD_NS 200000000
#define TICK_NS 50000000

struct watched {
	void (*work)(void *context);
	void *context;
};

static void *run(void *pointer)
{
	struct watched *watched = pointer;

	watched->work(watched->context);
	return watched;
}

static int64_t processor_time(pthread_t thread)
{
	struct timespec used;
	clockid_t clock;

	if (pthread_getcpuclockid(thread, &clock) || clock_gettime(clock, &used))
		return 0;
	return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

bool watched_run(void (*work)(void *context), void *context, unsigned seconds)
{
	return watched_run_told(work, context, seconds, NULL);
}

bool watched_run_told(void (*work)(void *context), void *context, unsigned seconds, void (*still)(void *context))
{
	struct watched *watched = need(calloc(1, sizeof *watched));
	unsigned waited = 0;
	int64_t used = 0;
	pthread_t thread;

	*watched = (struct watched){work, context};
	if (pthread_create(&thread, NULL, run, watched)) {
		run(watched);
		free(watched);
		return true;
	}
	for (unsigned second = 0; waited < seconds && second < WORKS_MOST * seconds; second++) {
		struct timespec until;
		int64_t before = used;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		if (pthread_timedjoin_np(thread, NULL, &until) == 0) {
			free(watched);
			return true;
		}
		if (still && second + 1 == WATCHED_STILL_SECONDS)
			still(context);
		used = processor_time(thread);
		waited += used - before < WORKS_NS;
	}
	return false;
}

/* One thread of a crowd, and what it works on. */
struct worker {
	struct crowd *crowd;
	pthread_t thread;
	bool works;
	size_t item;
	int64_t since, used; /* of this item; used: when it was looked at last */
	unsigned waited;     /* seconds of its own in which it hardly had a processor */
	unsigned looked;     /* seconds at all */
};

/* Stays for as long as a thread of it runs. */
struct crowd {
	pthread_mutex_t lock;
	pthread_cond_t came; /* something has come back */
	void (*work)(void *context);
	void **contexts;
	bool *back;
	size_t count, next, finished;
	bool closed; /* nobody waits for it any more */
	size_t alive;
	struct worker *workers; /* WORKERS_MOST of them */
	size_t started;
};

static void crowd_free(struct crowd *crowd)
{
	pthread_mutex_destroy(&crowd->lock);
	pthread_cond_destroy(&crowd->came);
	free(crowd->contexts);
	free(crowd->back);
	free(crowd->workers);
	free(crowd);
}

static void *run_some(void *pointer)
{
	struct worker *worker = pointer;
	struct crowd *crowd = worker->crowd;
	bool last;

	pthread_mutex_lock(&crowd->lock);
	while (!crowd->closed && crowd->next < crowd->count) {
		size_t item = crowd->next++;

		*worker = (struct worker){.crowd = crowd,
					  .thread = pthread_self(),
					  .works = true,
					  .item = item,
					  .since = clock_now(),
					  .used = processor_time(pthread_self())};
		pthread_mutex_unlock(&crowd->lock);
		crowd->work(crowd->contexts[item]);
		pthread_mutex_lock(&crowd->lock);
		crowd->back[item] = true;
		crowd->finished++;
		worker->works = false;
		pthread_cond_signal(&crowd->came);
	}
	last = --crowd->alive == 0 && crowd->closed;
	pthread_mutex_unlock(&crowd->lock);
	if (last)
		crowd_free(crowd);
	return NULL;
}

/* Is it still to be waited for? Asked more often than once a second. */
static bool is_patient(struct worker *worker, unsigned seconds)
{
	int64_t used;

	if (clock_now() - worker->since > (int64_t)(worker->looked + 1) * 1000000000) {
		used = processor_time(worker->thread);
		worker->waited += used - worker->used < WORKS_NS;
		worker->used = used;
		worker->looked++;
	}
	return worker->waited < seconds && worker->looked < WORKS_MOST * seconds;
}

/* Threads that are held up are no help: as many others begin in their place. */
static void start_workers(struct crowd *crowd, size_t held)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, WORKER_STACK);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	for (size_t wanted = 2 * held + WORKERS; crowd->started < wanted && crowd->started < WORKERS_MOST &&
						 crowd->started < held + crowd->count - crowd->next;) {
		struct worker *worker = &crowd->workers[crowd->started];

		worker->crowd = crowd;
		if (pthread_create(&worker->thread, &attributes, run_some, worker))
			break;
		crowd->started++;
		crowd->alive++;
	}
	pthread_attr_destroy(&attributes);
}

/* Where no thread can be had. */
static void work_here(struct crowd *crowd)
{
	for (; crowd->next < crowd->count; crowd->next++, crowd->finished++) {
		crowd->work(crowd->contexts[crowd->next]);
		crowd->back[crowd->next] = true;
	}
}

/* With the lock. Until all have come back, or none is left that is worth waiting for. */
static void await_crowd(struct crowd *crowd, unsigned seconds, int64_t end)
{
	for (;;) {
		struct timespec until;
		size_t held = 0, hopeless = 0;

		for (size_t i = 0; i < crowd->started; i++) {
			struct worker *worker = &crowd->workers[i];

			held += worker->works && clock_now() - worker->since > HELD_NS;
			hopeless += worker->works && !is_patient(worker, seconds);
		}
		if (crowd->next < crowd->count)
			start_workers(crowd, held);
		if (!crowd->started)
			work_here(crowd);
		if (crowd->finished + hopeless == crowd->count || clock_now() > end)
			return;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += TICK_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&crowd->came, &crowd->lock, &until);
	}
}

void watched_run_all(void (*work)(void *context), void *const *contexts, bool *came, size_t count, unsigned seconds,
		     unsigned most)
{
	struct crowd *crowd = need(calloc(1, sizeof *crowd));
	bool over;

	*crowd = (struct crowd){.work = work,
				.contexts = need(calloc(count + 1, sizeof *contexts)),
				.back = need(calloc(count + 1, sizeof *came)),
				.workers = need(calloc(WORKERS_MOST, sizeof *crowd->workers)),
				.count = count};
	pthread_mutex_init(&crowd->lock, NULL);
	pthread_cond_init(&crowd->came, NULL);
	for (size_t i = 0; i < count; i++)
		crowd->contexts[i] = contexts[i];
	pthread_mutex_lock(&crowd->lock);
	await_crowd(crowd, seconds, clock_now() + (int64_t)most * 1000000000);
	crowd->closed = true;
	for (size_t i = 0; i < count; i++)
		came[i] = crowd->back[i];
	over = crowd->alive == 0;
	pthread_mutex_unlock(&crowd->lock);
	if (over)
		crowd_free(crowd);
}

/* It may outlive us, and keeps nothing of ours open. */
static _Noreturn void work_apart(int (*work)(const void *context), const void *context, int end)
{
	dup2(end, STDIN_FILENO);
	for (int fd = STDOUT_FILENO; fd < DESCRIPTORS; fd++)
		close(fd);
	_exit(work(context));
}

int watched_apart(int (*work)(const void *context), const void *context, unsigned seconds)
{
	int ends[2], status = 0, answer = -1;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	child = fork();
	if (child == 0)
		work_apart(work, context, ends[1]);
	close(ends[1]);
	struct pollfd over = {.fd = ends[0], .events = POLLIN};
	int64_t until = clock_now() + (int64_t)seconds * 1000000000, left = until - clock_now();
	while (child > 0 && left > 0 && poll(&over, 1, (int)(left / 1000000) + 1) <= 0)
		left = until - clock_now();
	close(ends[0]);
	if (child > 0 && left <= 0)
		kill(child, SIGKILL);
	else if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status))
		answer = WEXITSTATUS(status);
	return answer;
}

void watched_or_end(int64_t pid, void (*work)(void *context), void *context)
{
	if (watched_run(work, context, WATCHED_SECONDS))
		return;
	fflush(stdout);
	_exit(fail(EXIT_TIMED_OUT, WATCHED_SENTENCE, (long long)pid));
}
