/* find.c - see find.h. */
#include "find.h"

#include "client/link/presence.h"
#include "client/process/facts.h"
#include "client/ui/text.h"
#include "proto/launcher.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVIRONMENT_MOST (1u << 20)
#define COMMAND_MOST 65536

struct candidate {
	int64_t pid, parent;
	uint64_t arguments; /* where its arguments lie: a forked child has them where its parent has */
	bool of_pool;	    /* started by Python's multiprocessing */
	bool launches;	    /* another candidate, started anew, descends from it */
	bool forked;
};

struct text {
	char *bytes;
	size_t size;
};

static const char *variable_of(const char *name, void *context)
{
	const struct text *environment = context;

	return launcher_find(environment->bytes, environment->size, name);
}

static bool is_wanted(int64_t pid, const char *job, const char *name, bool *of_pool)
{
	struct text environment, command;
	const char *launcher, *own;
	bool wanted = false;

	environment.bytes = process_file(pid, "environ", ENVIRONMENT_MOST, &environment.size);
	command.bytes = process_file(pid, "cmdline", COMMAND_MOST, &command.size);
	if (environment.bytes && command.bytes && command.size) {
		own = variable_of("PROFD_NAME", &environment);
		wanted = (!job || strcmp(launcher_job(variable_of, &environment, &launcher), job) == 0) &&
			 (!name || glob_matches(name, own ? own : launcher_program(command.bytes, command.size)));
		*of_pool = memmem(command.bytes, command.size, "--multiprocessing-fork", 22) != NULL;
	}
	free(environment.bytes);
	free(command.bytes);
	return wanted;
}

/* What an agent that had been there from the start would have woken up for. */
static bool has_work(int64_t pid)
{
	return process_maps(pid, "/libtorch_cpu.so") || process_maps(pid, "/libcuda.so");
}

static struct candidate *candidates(const char *job, const char *name, size_t *count)
{
	struct candidate *rows = NULL;
	struct dirent *entry;
	DIR *folder = opendir("/proc");

	*count = 0;
	while (folder && (entry = readdir(folder))) {
		struct candidate found = {.pid = strtoll(entry->d_name, NULL, 10)};

		if (found.pid <= 0 || found.pid == getpid() || !is_wanted(found.pid, job, name, &found.of_pool) ||
		    !has_work(found.pid))
			continue;
		found.parent = (int64_t)process_number(found.pid, PROCESS_PARENT);
		found.arguments = process_number(found.pid, PROCESS_ARGUMENTS);
		rows = need(realloc(rows, (*count + 1) * sizeof *rows));
		rows[(*count)++] = found;
	}
	if (folder)
		closedir(folder);
	return rows;
}

static struct candidate *by_pid(struct candidate *rows, size_t count, int64_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].pid == pid)
			return &rows[i];
	return NULL;
}

/* Says of each what it is to the others. A launcher's shell may stand between it and what it launches. */
static void relate(struct candidate *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct candidate *row = &rows[i], *parent = by_pid(rows, count, row->parent);
		int64_t above = row->parent;

		row->forked = parent && row->arguments && parent->arguments == row->arguments;
		for (int depth = 0; depth < 16 && above > 1 && !row->forked && !row->of_pool; depth++) {
			parent = by_pid(rows, count, above);
			if (parent)
				parent->launches = true;
			above = (int64_t)process_number(above, PROCESS_PARENT);
		}
	}
}

int64_t *find_unprepared(const char *job, const char *name, size_t *count)
{
	size_t rows;
	struct candidate *found = candidates(job, name, &rows);
	int64_t *pids = need(calloc(rows + 1, sizeof *pids));

	*count = 0;
	relate(found, rows);
	for (size_t i = 0; i < rows; i++)
		if (!found[i].forked && !found[i].launches && presence_is_missing(found[i].pid))
			pids[(*count)++] = found[i].pid;
	free(found);
	return pids;
}
