/* watched.c - see watched.h. */
#include "watched.h"

#include "client/ui/failure.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define SECONDS 20

struct watched {
	int64_t pid;
	struct stack_process *ret;
};

static void *read_it(void *context)
{
	struct watched *watched = context;

	stack_read(watched->pid, watched->ret);
	return NULL;
}

void stack_read_watched(int64_t pid, struct stack_process *ret)
{
	struct watched watched = {pid, ret};
	struct timespec until;
	pthread_t thread;

	if (pthread_create(&thread, NULL, read_it, &watched)) {
		read_it(&watched);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SECONDS;
	if (pthread_timedjoin_np(thread, NULL, &until) == 0)
		return;
	fflush(stdout);
	_exit(fail(EXIT_TIMED_OUT, "process %lld keeps whoever reads its memory waiting: its stacks were not read",
		   (long long)pid));
}
