/* detach.c - see detach.h. */
#include "detach.h"

#include "client/link/collect.h"
#include "client/link/presence.h"
#include "client/ui/clock.h"
#include "client/ui/text.h"

#include <stdio.h>
#include <time.h>

/* Threads end after the connection; the one that switches CUPTI's last kind off needs seconds (the agent itself waits 5 s for it). */
#define GONE_NS 2000000000ll
#define LAST_NS 8000000000ll

static bool await_end(int64_t pid)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	int64_t began = clock_now();

	for (;;) {
		bool awake = presence_of(pid) == PRESENCE_AWAKE;

		if (!awake && !presence_lingers(pid))
			return true;
		if (clock_now() - began > (awake ? GONE_NS : LAST_NS))
			return false;
		nanosleep(&nap, NULL);
	}
}

bool detach_tried(struct daemons *daemons, int64_t pid, struct failure *failure)
{
	cJSON *request = request_new("detach");
	struct collect collect = {"detached", need(cJSON_CreateArray())};
	char sentence[FAILURE_TEXT_BYTES];
	bool done;

	need(cJSON_AddNumberToObject(request, "pid", (double)pid));
	done = daemons_query(daemons, request, collect_row, &collect, failure) > 0;
	cJSON_Delete(collect.array);
	cJSON_Delete(request);
	if (!done || await_end(pid))
		return done;
	snprintf(
		sentence, sizeof sentence,
		"the agent of process %lld is disconnected, but its threads have not ended yet: `profd doctor --pid %lld` "
		"says when they have",
		(long long)pid, (long long)pid);
	failure_set(failure, ERROR_TIMEOUT, sentence);
	failure->pid = pid;
	return false;
}

int detach_agent(struct daemons *daemons, int64_t pid)
{
	struct failure failure;

	return detach_tried(daemons, pid, &failure) ? EXIT_DONE : failure_print(&failure);
}
