/* foresee.c - see foresee.h. */
#include "foresee.h"

#include "choose.h"
#include "client/process/facts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#if defined(__x86_64__)

/* The stack of a new thread if nothing is said of it, and if stacks are not limited. */
#define STACK_DEFAULT (UINT64_C(8) << 20)
#define STACK_UNLIMITED (UINT64_C(2) << 20)

static bool has_room_for_thread(int64_t pid)
{
	struct rlimit most, stack;
	char text[64];

	if (prlimit((pid_t)pid, RLIMIT_AS, NULL, &most) || most.rlim_cur == RLIM_INFINITY ||
	    !process_status(pid, "VmSize", text, sizeof text))
		return true;
	uint64_t needed = STACK_DEFAULT;
	if (prlimit((pid_t)pid, RLIMIT_STACK, NULL, &stack) == 0)
		needed = stack.rlim_cur == RLIM_INFINITY ? STACK_UNLIMITED : stack.rlim_cur;
	return strtoull(text, NULL, 10) * 1024 + needed <= most.rlim_cur;
}

/* The number in a file of a control group; -1 where there is none ("max"). */
static long long number_of(const char *folder, const char *path, const char *name)
{
	char file[PATH_MAX], text[32];
	long long number = -1;
	FILE *from;

	snprintf(file, sizeof file, "/sys/fs/cgroup%s%s/%s", folder, path, name);
	from = fopen(file, "re");
	if (!from)
		return -1;
	if (fgets(text, sizeof text, from) && *text >= '0' && *text <= '9')
		number = strtoll(text, NULL, 10);
	(void)fclose(from);
	return number;
}

/* "N:pids:/path" of version 1, "0::/path" of version 2. */
static bool take_group(void *context, char *line)
{
	bool *full = context;
	char *kinds = strchr(line, ':'), *path = kinds ? strchr(kinds + 1, ':') : NULL;
	long long most, now;
	bool first;

	if (!path)
		return true;
	*path++ = 0;
	first = strcmp(kinds + 1, "pids") == 0;
	if (!first && kinds[1])
		return true;
	most = number_of(first ? "/pids" : "", path, "pids.max");
	now = number_of(first ? "/pids" : "", path, "pids.current");
	/* The thread that loads the agent, and the agent's two, which it starts. */
	*full = *full || (most >= 0 && now >= 0 && now + 3 > most);
	return true;
}

const char *foresee(struct target *target)
{
	bool full = false;

	if (target->slot.path_bytes && !target->slot.why)
		return NULL;
	process_lines(target->pid, "cgroup", take_group, &full);
	if (full)
		return "its control group allows no more threads (pids.max), and the agent is one";
	if (!has_room_for_thread(target->pid))
		return "its limit of memory (ulimit -v) leaves no room for a thread, and the agent is one";
	if (!choose_could(target))
		return "just now each of its threads sleeps in a call that a stop would end with EINTR (epoll_wait, a socket with a "
		       "timeout, ...), waits for a lock, has a filter of system calls of its own, or has no stack left";
	return NULL;
}

#else

const char *foresee(struct target *target)
{
	(void)target;
	return NULL;
}

#endif
