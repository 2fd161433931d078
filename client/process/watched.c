/* watched.c - see watched.h. */
#include "watched.h"

#include "client/ui/failure.h"
#include "client/ui/text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A reader that gets this much processor time a second is slow, not blocked; it gets at most N times the usual time. */
#define WORKS_NS 20000000
#define WORKS_MOST 6

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
		used = processor_time(thread);
		waited += used - before < WORKS_NS;
	}
	return false;
}

void watched_or_end(int64_t pid, void (*work)(void *context), void *context)
{
	if (watched_run(work, context, WATCHED_SECONDS))
		return;
	fflush(stdout);
	_exit(fail(EXIT_TIMED_OUT, WATCHED_SENTENCE, (long long)pid));
}
