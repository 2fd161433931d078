/* detach.c - see detach.h. */
#include "detach.h"

#include "client/link/collect.h"
#include "client/link/presence.h"
#include "client/ui/clock.h"
#include "client/ui/text.h"

#include <time.h>

/* Threads end after the connection. */
#define GONE_NS 2000000000ll

static bool await_end(int64_t pid)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	int64_t began = clock_now();

	while (presence_of(pid) == PRESENCE_AWAKE) {
		if (clock_now() - began > GONE_NS)
			return false;
		nanosleep(&nap, NULL);
	}
	return true;
}

int detach_agent(struct daemons *daemons, int64_t pid)
{
	cJSON *request = request_new("detach"), *rows;
	int code;

	need(cJSON_AddNumberToObject(request, "pid", (double)pid));
	code = collect_rows(daemons, request, "detached", &rows);
	cJSON_Delete(rows);
	cJSON_Delete(request);
	if (!code && !await_end(pid))
		code = fail(
			EXIT_TIMED_OUT,
			"the agent of process %lld is disconnected, but its threads have not ended yet: `profd doctor --pid %lld` "
			"says when they have",
			(long long)pid, (long long)pid);
	return code;
}
