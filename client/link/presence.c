/* presence.c - see presence.h. Reads /proc/PID/{maps,stat,task}. */
#include "presence.h"

#include "client/process/facts.h"
#include "client/ui/clock.h"
#include "client/ui/text.h"
#include "collect.h"
#include "forked.h"
#include "proto/claim.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MILLISECOND 1000000ll
/* How often it is looked. */
#define LOOK_NS (20 * MILLISECOND)
/* After a restart of the daemon an agent that runs registers within this time, or much later. */
#define AWAKE_NS (3000 * MILLISECOND)
/* An agent sleeps in a young process until torch is imported. That may take longer than a user likes to wait. */
#define ASLEEP_NS (1000 * MILLISECOND)
#define YOUNG_NS (10000 * MILLISECOND)
/* In a process that is younger than this the loader may not have loaded the agent yet. */
#define LOADING_NS (500 * MILLISECOND)
/* We wait for no more processes than this: each is asked for by itself. */
#define AWAITED 16

/* The agent's. While it starts it may have its keeper alone. */
static bool is_agents(const char *name)
{
	return strcmp(name, "profd\n") == 0 || strcmp(name, "profd-keeper\n") == 0;
}

static bool is_guards(const char *name)
{
	return strcmp(name, "profd-cupti\n") == 0;
}

static bool has_thread(int64_t pid, bool (*is_it)(const char *name))
{
	char path[64], name[32];
	struct dirent *entry;
	bool found = false;
	DIR *folder;

	snprintf(path, sizeof path, "/proc/%lld/task", (long long)pid);
	folder = opendir(path);
	while (folder && !found && (entry = readdir(folder))) {
		FILE *file;

		snprintf(path, sizeof path, "/proc/%lld/task/%.16s/comm", (long long)pid, entry->d_name);
		file = *entry->d_name == '.' ? NULL : fopen(path, "re");
		if (!file)
			continue;
		found = fgets(name, sizeof name, file) && is_it(name);
		fclose(file);
	}
	if (folder)
		closedir(folder);
	return found;
}

struct mappings {
	bool any, loaded, claimed;
};

static bool take_mapping(void *context, char *line)
{
	struct mappings *mappings = context;

	mappings->any = true;
	mappings->claimed = mappings->claimed || strncmp(line, CLAIM_LINE, strlen(CLAIM_LINE)) == 0;
	mappings->loaded = strstr(line, "/libprofd_agent") != NULL;
	return !mappings->loaded;
}

enum presence presence_of(int64_t pid)
{
	struct mappings mappings = {0};

	process_lines(pid, "maps", take_mapping, &mappings);
	if (!mappings.any)
		return PRESENCE_UNKNOWN;
	if (!mappings.loaded)
		return PRESENCE_ABSENT;
	if (has_thread(pid, is_agents))
		return PRESENCE_AWAKE;
	if (mappings.claimed)
		return PRESENCE_DETACHED;
	return forked_since_exec(pid) ? PRESENCE_FORKED : PRESENCE_ASLEEP;
}

bool presence_lingers(int64_t pid)
{
	return has_thread(pid, is_guards);
}

bool presence_is_missing(int64_t pid)
{
	enum presence presence = presence_of(pid);

	return presence == PRESENCE_ABSENT || presence == PRESENCE_DETACHED || presence == PRESENCE_FORKED;
}

/* Since the process was made; a long time where that cannot be read. */
static int64_t age(int64_t pid)
{
	uint64_t ticks = process_number(pid, PROCESS_START);

	if (!ticks)
		return INT64_MAX;
	return clock_of(CLOCK_BOOTTIME) -
	       (int64_t)(ticks * (uint64_t)(1000 * MILLISECOND) / (uint64_t)sysconf(_SC_CLK_TCK));
}

static bool is_registered(struct daemons *daemons, int64_t pid)
{
	cJSON *request = request_new("ps");
	struct collect collect = {"process", need(cJSON_CreateArray())};
	struct failure failure = {0};
	bool settled;

	need(cJSON_AddNumberToObject(request, "pid", (double)pid));
	daemons_query(daemons, request, collect_row, &collect, &failure);
	/* Waiting only changes the answer "not here". */
	settled = cJSON_GetArraySize(collect.array) > 0 ||
		  (failure.error != ERROR_NOTHING_YET && failure.error != ERROR_NOT_REGISTERED &&
		   failure.error != ERROR_NO_AGENT && failure.error != ERROR_NO_TARGET &&
		   failure.error != ERROR_DETACHED && failure.error != ERROR_FORKED);
	cJSON_Delete(collect.array);
	cJSON_Delete(request);
	return settled;
}

/* How long it is worth to wait for it, from `began` on. */
static int64_t patience(int64_t pid)
{
	switch (presence_of(pid)) {
	case PRESENCE_AWAKE:
		return AWAKE_NS;
	case PRESENCE_ASLEEP:
	/* An agent that begins claims its process before its thread runs: for a moment that looks as after detach. */
	case PRESENCE_DETACHED:
	/* A child that loads an agent of its own by NVTX or CUDA looks the same. */
	case PRESENCE_FORKED:
		return age(pid) < YOUNG_NS ? ASLEEP_NS : 0;
	case PRESENCE_ABSENT:
		return age(pid) < LOADING_NS ? LOADING_NS : 0;
	case PRESENCE_UNKNOWN:
		break;
	}
	return 0;
}

void presence_await(struct daemons *daemons, const int64_t *pids, size_t count)
{
	int64_t began = clock_now();

	for (size_t i = 0; i < count && count <= AWAITED; i++)
		while (clock_now() - began < patience(pids[i]) && !is_registered(daemons, pids[i])) {
			struct timespec nap = {.tv_nsec = LOOK_NS};

			nanosleep(&nap, NULL);
		}
}

static enum error error_of(enum presence presence)
{
	switch (presence) {
	case PRESENCE_ASLEEP:
		return ERROR_NOTHING_YET;
	case PRESENCE_AWAKE:
		return ERROR_NOT_REGISTERED;
	case PRESENCE_DETACHED:
		return ERROR_DETACHED;
	case PRESENCE_FORKED:
		return ERROR_FORKED;
	case PRESENCE_UNKNOWN:
	case PRESENCE_ABSENT:
		break;
	}
	return ERROR_NONE;
}

void presence_explain(struct failure *failure)
{
	int64_t pid = failure->pid;
	char text[24];
	enum error error = failure->error == ERROR_NO_AGENT && pid > 0 ? error_of(presence_of(pid)) : ERROR_NONE;

	if (error == ERROR_NONE)
		return;
	snprintf(text, sizeof text, "%lld", (long long)pid);
	failure_set(failure, error, text);
	failure->pid = pid;
}
