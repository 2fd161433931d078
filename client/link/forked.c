/* forked.c - see forked.h. Reads /proc/PID/{stat,maps}. */
#include "forked.h"

#include "client/process/facts.h"
#include "client/ui/failure.h"
#include "client/ui/text.h"
#include "presence.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PF_FORKNOEXEC of the kernel's process flags: set by fork, cleared by exec. */
#define FORKED_FLAG 0x40u
/* Of more children the number is told. */
#define NAMED 16

bool forked_since_exec(int64_t pid)
{
	return process_number(pid, PROCESS_FLAGS) & FORKED_FLAG;
}

static bool take_agent(void *context, char *line)
{
	uint64_t *place = context;

	if (!strstr(line, "/libprofd_agent"))
		return true;
	*place = strtoull(line, NULL, 16);
	return false;
}

int64_t forked_by(int64_t pid)
{
	int64_t parent = (int64_t)process_number(pid, PROCESS_PARENT);
	uint64_t own = 0, parents = 0;

	if (parent <= 0 || !forked_since_exec(pid))
		return 0;
	process_lines(pid, "maps", take_agent, &own);
	process_lines(parent, "maps", take_agent, &parents);
	return own && own == parents ? parent : 0;
}

struct children {
	int64_t parent;
	size_t count, used;
	char names[NAMED * 24];
};

static void add(struct children *of, int64_t child)
{
	if (++of->count <= NAMED)
		of->used += (size_t)snprintf(of->names + of->used, sizeof of->names - of->used, "%s%" PRId64,
					     of->used ? ", " : "", child);
}

static void print(const struct children *of)
{
	char more[48] = "";

	if (of->count > NAMED)
		snprintf(more, sizeof more, " and %zu more", of->count - NAMED);
	note("process %" PRId64
	     " has forked children in which the agent does not live on: %s%s. If they are ranks, `profd attach --pid N` (or `trigger "
	     "--pid N --attach`) gives each an agent of its own; workers of a DataLoader need none",
	     of->parent, of->names, more);
}

static struct children *find(struct children *list, size_t count, int64_t parent)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].parent == parent)
			return parent > 0 ? &list[i] : NULL;
	return NULL;
}

void forked_note(const int64_t *pids, size_t count)
{
	struct children *list = need(calloc(count + 1, sizeof *list));
	DIR *folder = count ? opendir("/proc") : NULL;
	struct dirent *entry;

	for (size_t i = 0; i < count; i++)
		list[i].parent = pids[i];
	/* One look at all processes, however many are asked about. */
	while (folder && (entry = readdir(folder))) {
		int64_t child = strtoll(entry->d_name, NULL, 10);
		struct children *of =
			child > 0 ? find(list, count, (int64_t)process_number(child, PROCESS_PARENT)) : NULL;

		if (of && forked_since_exec(child) && presence_of(child) == PRESENCE_FORKED)
			add(of, child);
	}
	if (folder)
		closedir(folder);
	for (size_t i = 0; i < count; i++)
		if (list[i].count)
			print(&list[i]);
	free(list);
}
