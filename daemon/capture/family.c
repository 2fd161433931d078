/* family.c - see family.h. Thread: the loop's. No locks. */
#include "family.h"
#include "process_stat.h"
#include "registry_row.h"
#include "proto/base/array.h"
#include "daemon/core/server.h"
#include "live.h"

#include <string.h>

static const char *const words[] = {[ROLE_LAUNCHER] = "launcher", [ROLE_WORKER] = "worker"};

const char *family_role_word(enum role role)
{
	return words[role];
}

void family_trace(struct process *process)
{
	pid_t pid = process->who.pid;
	for (size_t i = 0; i < FAMILY_ANCESTORS && (pid = process_parent(pid)) > 1; i++)
		process->ancestors[i] = pid;
}

static bool steps(const struct process *process)
{
	return registry_step_source(process) != STEP_SOURCE_NONE;
}

static bool descends_from(const struct process *process, pid_t pid, uint64_t start_time)
{
	/* A process that got an ancestor's pid later is not an ancestor. */
	if (process->who.start_time < start_time)
		return false;
	for (size_t i = 0; i < FAMILY_ANCESTORS && process->ancestors[i]; i++)
		if (process->ancestors[i] == pid)
			return true;
	return false;
}

static bool descends(const struct process *process, const struct process *from)
{
	return process != from && descends_from(process, from->who.pid, from->who.start_time);
}

bool family_is_of(const struct process *process, pid_t pid, uint64_t start_time)
{
	return (process->who.pid == pid && process->who.start_time == start_time) ||
	       descends_from(process, pid, start_time);
}

enum role family_role(const struct process *process)
{
	int32_t rank = -1;
	if (steps(process))
		return ROLE_NONE;
	for (const struct process *other = live_of(process->server)->processes; other; other = other->next) {
		if (descends(process, other) && steps(other))
			return ROLE_WORKER;
		if (!descends(other, process))
			continue;
		/* A worker that has its parent's rank does not make the parent a launcher; two different ranks do. */
		bool another = other->who.rank >= 0 && other->who.rank != process->who.rank;
		if (steps(other) || (another && process->who.rank < 0) ||
		    (another && rank >= 0 && other->who.rank != rank))
			return ROLE_LAUNCHER;
		rank = another ? other->who.rank : rank;
	}
	return ROLE_NONE;
}

/* torchrun calls every job without an id "none". */
static bool has_job(const struct identity *who)
{
	return *who->job && strcmp(who->job, "none") != 0;
}

static int compare(int64_t a, int64_t b)
{
	return ORDER(a, b);
}

int family_by_job(const void *a, const void *b)
{
	const struct process *one = *(struct process *const *)a, *other = *(struct process *const *)b;
	int order = compare(one->who.uid, other->who.uid);
	order = order ? order : strcmp(one->who.job, other->who.job);
	if (order || has_job(&one->who))
		return order;
	/* Without an id a job is what one parent has started as one world. */
	order = compare(one->ancestors[0], other->ancestors[0]);
	return order ? order : compare(one->who.world_size, other->who.world_size);
}

bool family_is_bystander(const struct process *process)
{
	if (steps(process))
		return false;
	if (family_role(process) != ROLE_NONE)
		return true;
	for (const struct process *other = live_of(process->server)->processes; other && has_job(&process->who);
	     other = other->next)
		if (steps(other) && family_by_job(&process, &other) == 0 &&
		    (process->who.rank < 0 || process->who.rank == other->who.rank))
			return true;
	return false;
}
