/* find.c - see find.h. */
#include "find.h"

#include "client/link/forked.h"
#include "client/link/presence.h"
#include "client/process/facts.h"
#include "client/process/watched.h"
#include "client/ui/failure.h"
#include "client/ui/text.h"
#include "proto/launcher.h"
#include "worker.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVIRONMENT_MOST (1u << 20)
#define COMMAND_MOST 65536
#define LOOK_SECONDS 3 /* for each, side by side */
#define ALL_SECONDS 30
#define NAMED_MOST 3

/* Variables that a launcher gives to each of the ranks that it starts, and has not itself. */
static const char *const own_ranks[] = {"RANK", "OMPI_COMM_WORLD_RANK"};

struct candidate {
	int64_t pid, parent;
	uint64_t arguments; /* where its arguments lie: a forked child has them where its parent has */
	int rank;	    /* -1: not told */
	int own_rank;	    /* the same, of own_ranks alone */
	bool works;	    /* it has torch or CUDA */
	bool of_pool;	    /* started by Python's multiprocessing */
	bool launches;	    /* another candidate that works, started anew, descends from it */
	bool helps;	    /* it descends from one that works, and has the same rank, or does no such work */
	bool forked;	    /* it has its parent's program, and is no rank of its own */
	bool is_rank;	    /* by what it does: a forked one may be */
};

/* What is looked for, and one process of /proc. */
struct look {
	const char *job, *name;
	bool python; /* whatever runs Python, else what works */
	struct candidate found;
	bool wanted;
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

static void read_ranks(struct text *environment, struct candidate *ret)
{
	struct launcher_ranks ranks;

	launcher_ranks(variable_of, environment, &ranks);
	ret->rank = ranks.rank;
	ret->own_rank = -1;
	for (size_t i = 0; i < sizeof own_ranks / sizeof *own_ranks && ret->own_rank < 0; i++)
		ret->own_rank = variable_of(own_ranks[i], environment) ? ranks.rank : -1;
}

/* Torch compiles kernels in processes that a rank starts; they have its environment and its libraries. */
static bool is_compiler(const struct text *command)
{
	return memmem(command->bytes, command->size, "torch/_inductor/compile_worker", 30) != NULL;
}

static bool is_wanted(const struct look *look, struct candidate *ret)
{
	struct text environment, command;
	const char *launcher, *own;
	bool wanted = false;

	environment.bytes = process_file(ret->pid, "environ", ENVIRONMENT_MOST, &environment.size);
	command.bytes = process_file(ret->pid, "cmdline", COMMAND_MOST, &command.size);
	if (environment.bytes && command.bytes && command.size && !is_compiler(&command)) {
		own = variable_of("PROFD_NAME", &environment);
		wanted = (!look->job || strcmp(launcher_job(variable_of, &environment, &launcher), look->job) == 0) &&
			 (!look->name ||
			  glob_matches(look->name, own ? own : launcher_program(command.bytes, command.size)));
		ret->of_pool = memmem(command.bytes, command.size, "--multiprocessing-fork", 22) != NULL;
		read_ranks(&environment, ret);
	}
	free(environment.bytes);
	free(command.bytes);
	return wanted;
}

/* Has it mapped a library for which an agent wakes up? */
static bool has_work(int64_t pid)
{
	return process_maps(pid, "/libtorch_cpu.so") || process_maps(pid, "/libcuda.so");
}

static void look_at(void *pointer)
{
	struct look *look = pointer;
	struct candidate *found = &look->found;

	if (!is_wanted(look, found))
		return;
	found->works = has_work(found->pid);
	look->wanted = found->works || (look->python && process_maps(found->pid, "python"));
	found->parent = (int64_t)process_number(found->pid, PROCESS_PARENT);
	found->arguments = process_number(found->pid, PROCESS_ARGUMENTS);
	found->is_rank = found->works && forked_since_exec(found->pid) && rank_was_spawned(found->pid);
}

static struct look **looks_at_all(const struct look *what, size_t *count)
{
	struct look **looks = need(malloc(sizeof *looks));
	struct dirent *entry;
	DIR *folder = opendir("/proc");

	*count = 0;
	while (folder && (entry = readdir(folder))) {
		int64_t pid = strtoll(entry->d_name, NULL, 10);

		if (pid <= 0 || pid == getpid())
			continue;
		looks = need(realloc(looks, (*count + 1) * sizeof *looks));
		looks[*count] = need(malloc(sizeof **looks));
		*looks[*count] = *what;
		looks[(*count)++]->found.pid = pid;
	}
	if (folder)
		closedir(folder);
	return looks;
}

static void tell_left_out(const int64_t *pids, size_t count)
{
	for (size_t i = 0; i < count && i < NAMED_MOST; i++)
		note(WATCHED_SENTENCE, (long long)pids[i]);
	if (count > NAMED_MOST)
		note("and so do %zu more, or there was no time left for them: whether they are wanted is not known",
		     count - NAMED_MOST);
}

/* Those that keep their readers waiting are left out, with a line that says so. What their readers work on is left to those. */
static struct candidate *candidates(const struct look *what, size_t *count)
{
	size_t all, late = 0;
	struct look **looks = looks_at_all(what, &all);
	struct candidate *rows = need(calloc(all + 1, sizeof *rows));
	int64_t *left_out = need(calloc(all + 1, sizeof *left_out));
	bool *came = need(calloc(all + 1, sizeof *came));

	watched_run_all(look_at, (void *const *)looks, came, all, LOOK_SECONDS, ALL_SECONDS);
	*count = 0;
	for (size_t i = 0; i < all; i++) {
		if (!came[i]) {
			left_out[late++] = looks[i]->found.pid;
			continue;
		}
		if (looks[i]->wanted)
			rows[(*count)++] = looks[i]->found;
		free(looks[i]);
	}
	tell_left_out(left_out, late);
	free(came);
	free(left_out);
	free(looks);
	return rows;
}

static struct candidate *by_pid(struct candidate *rows, size_t count, int64_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].pid == pid)
			return &rows[i];
	return NULL;
}

/* Notes how a process that was started by exec is related to one above it. */
static void relate_to(struct candidate *row, struct candidate *above)
{
	bool same_rank = row->own_rank >= 0 && row->own_rank == above->own_rank;

	if (!above->works)
		return;
	if (same_rank || !row->works)
		row->helps = true;
	else
		above->launches = true;
}

/* Its parent waits for its ranks, unless it is one of them itself. A process that a forked rank has forked has a part
 * of that rank's stack, and is no rank. */
static void relate_forked(struct candidate *row, struct candidate *parent)
{
	row->forked = !row->is_rank || parent->is_rank;
	if (!row->forked && !rank_has_group(parent->pid))
		parent->launches = true;
}

/* Says of each what it is to the others. A launcher's shell may stand between it and what it launches. */
static void relate(struct candidate *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct candidate *row = &rows[i], *parent = by_pid(rows, count, row->parent);
		int64_t above = row->parent;

		if (parent && row->arguments && parent->arguments == row->arguments) {
			relate_forked(row, parent);
			continue;
		}
		for (int depth = 0; depth < 16 && above > 1 && !row->of_pool; depth++) {
			parent = by_pid(rows, count, above);
			if (parent)
				relate_to(row, parent);
			above = (int64_t)process_number(above, PROCESS_PARENT);
		}
	}
}

static struct found_process *find(const struct look *look, bool (*take)(int64_t pid), size_t *count)
{
	size_t rows;
	struct candidate *found = candidates(look, &rows);
	struct found_process *ret = need(calloc(rows + 1, sizeof *ret));

	*count = 0;
	relate(found, rows);
	for (size_t i = 0; i < rows; i++)
		if (!found[i].forked && !found[i].launches && !found[i].helps && (!take || take(found[i].pid)))
			ret[(*count)++] = (struct found_process){found[i].pid, found[i].rank};
	free(found);
	return ret;
}

struct found_process *find_unprepared(const char *job, const char *name, size_t *count)
{
	return find(&(struct look){.job = job, .name = name}, presence_is_missing, count);
}

struct found_process *find_python(const char *job, const char *name, size_t *count)
{
	return find(&(struct look){.job = job, .name = name, .python = true}, NULL, count);
}
