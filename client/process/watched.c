/* watched.c - see watched.h. */
#include "watched.h"

#include "client/ui/failure.h"
#include "client/ui/text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

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

bool watched_run(void (*work)(void *context), void *context, unsigned seconds)
{
	struct watched *watched = need(calloc(1, sizeof *watched));
	struct timespec until;
	pthread_t thread;

	*watched = (struct watched){work, context};
	if (pthread_create(&thread, NULL, run, watched)) {
		run(watched);
		free(watched);
		return true;
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	if (pthread_timedjoin_np(thread, NULL, &until))
		return false;
	free(watched);
	return true;
}

void watched_or_end(int64_t pid, void (*work)(void *context), void *context)
{
	if (watched_run(work, context, WATCHED_SECONDS))
		return;
	fflush(stdout);
	_exit(fail(EXIT_TIMED_OUT, WATCHED_SENTENCE, (long long)pid));
}
