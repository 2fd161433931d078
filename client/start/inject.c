/* inject.c - see inject.h. */
#include "inject.h"

#include "client/ui/failure.h"
#include "install.h"
#include "client/ui/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Is `path` one of the entries of an LD_PRELOAD list? Blanks and colons separate. */
static bool listed(const char *list, const char *path)
{
	size_t n = strlen(path);

	while (*list) {
		size_t entry = strcspn(list, " :");

		if (entry == n && strncmp(list, path, n) == 0)
			return true;
		list += entry;
		list += strspn(list, " :");
	}
	return false;
}

static char *preload(const char *agent)
{
	const char *held = getenv("LD_PRELOAD");
	size_t bytes;
	char *value;

	if (!held || !held[strspn(held, " :")])
		return need(strdup(agent));
	if (listed(held, agent))
		return NULL;
	note("LD_PRELOAD holds %s already; the agent is added behind it", held);
	bytes = strlen(held) + strlen(agent) + 2;
	value = need(malloc(bytes));
	snprintf(value, bytes, "%s:%s", held, agent);
	return value;
}

static char *single(const char *variable, const char *what, const char *agent)
{
	const char *held = getenv(variable);

	if (!held || !*held)
		return need(strdup(agent));
	if (strcmp(held, agent) != 0)
		note("%s is held by %s and left alone; %s", variable, held, what);
	return NULL;
}

int inject_plan(struct inject plan[INJECT_MAX], const char *name, const char *job)
{
	char agent[PATH_MAX];
	int count = 0;

	if (!install_agent(agent)) {
		const char *chosen = getenv("PROFD_AGENT");

		if (chosen && *chosen)
			fail(EXIT_FAILED,
			     "PROFD_AGENT names %s, which cannot be read; name the agent's library "
			     "(libprofd_agent.so), or unset it",
			     chosen);
		else
			fail(EXIT_FAILED, "the agent's library (libprofd_agent.so) is not beside this program; "
					  "name it with PROFD_AGENT");
		return -1;
	}
	if (strpbrk(agent, " :")) {
		fail(EXIT_FAILED,
		     "LD_PRELOAD cannot hold a path with a blank or a colon in it: %s; copy the library elsewhere and "
		     "name it with PROFD_AGENT",
		     agent);
		return -1;
	}
	plan[count++] = (struct inject){"LD_PRELOAD", preload(agent)};
	plan[count++] =
		(struct inject){"CUDA_INJECTION64_PATH",
				single("CUDA_INJECTION64_PATH", "the agent comes by LD_PRELOAD all the same", agent)};
	plan[count++] =
		(struct inject){"NVTX_INJECTION64_PATH",
				single("NVTX_INJECTION64_PATH", "NVTX ranges go to it and not to profd", agent)};
	if (name)
		plan[count++] = (struct inject){"PROFD_NAME", need(strdup(name))};
	if (job)
		plan[count++] = (struct inject){"PROFD_JOB", need(strdup(job))};
	return count;
}

void inject_deinit(struct inject *plan, int count)
{
	for (int i = 0; i < count; i++)
		free(plan[i].value);
}
