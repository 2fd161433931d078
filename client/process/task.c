/* task.c - see task.h. */
#include "task.h"

#include "facts.h"

#include "client/ui/text.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TASKS_MOST 65536
/* Of the kernel's include/linux/sched.h. */
#define FLAG_EXITING 4u

static FILE *open_file(int64_t pid, int64_t tid, const char *name)
{
	char path[96];

	snprintf(path, sizeof path, "/proc/%lld/task/%lld/%s", (long long)pid, (long long)tid, name);
	return fopen(path, "re");
}

/* "PID (NAME) STATE ...": a name may hold anything but NUL, brackets and newlines too. */
char process_task_state(int64_t pid, int64_t tid)
{
	FILE *file = open_file(pid, tid, "stat");
	char text[128], *bracket;
	size_t n;

	if (!file)
		return '?';
	n = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[n] = 0;
	bracket = strrchr(text, ')');
	return bracket && bracket[1] && bracket[2] ? bracket[2] : '?';
}

struct process_work process_task_work(int64_t pid, int64_t tid)
{
	struct process_work ret = {0};
	FILE *file = open_file(pid, tid, "status");
	char line[1024];

	while (file && fgets(line, sizeof line, file)) {
		const char *number = strstr(line, "voluntary_ctxt_switches:");

		/* Of two kinds, whose words end alike. */
		if (number && (number == line || number == line + 3)) {
			ret.switches += strtoull(strchr(number, ':') + 1, NULL, 10);
			ret.known = true;
		}
	}
	if (file)
		fclose(file);
	file = open_file(pid, tid, "schedstat");
	if (file && fgets(line, sizeof line, file))
		ret.ns = strtoull(line, NULL, 10);
	if (file)
		fclose(file);
	return ret;
}

bool process_ends(int64_t pid)
{
	char state = process_task_state(pid, pid);

	return state == 'Z' || state == 'X' || state == '?' || process_number(pid, PROCESS_FLAGS) & FLAG_EXITING;
}

static void read_name(int64_t pid, struct process_task *task)
{
	FILE *file = open_file(pid, task->tid, "comm");

	task->name[0] = 0;
	if (!file)
		return;
	if (fgets(task->name, sizeof task->name, file))
		task->name[strcspn(task->name, "\n")] = 0;
	fclose(file);
}

/* NSpid has the id in each pid namespace, the innermost last. */
static void read_inner(int64_t pid, struct process_task *task)
{
	FILE *file = open_file(pid, task->tid, "status");
	char line[1024];

	task->inner = task->tid;
	if (!file)
		return;
	while (fgets(line, sizeof line, file)) {
		char *last;

		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		line[strcspn(line, "\n")] = 0;
		last = strrchr(line, '\t');
		if (last)
			task->inner = strtoll(last, NULL, 10);
		break;
	}
	fclose(file);
}

struct process_task *process_tasks(int64_t pid, size_t *count)
{
	char path[64];
	struct process_task *rows = NULL;
	struct dirent *entry;
	size_t room = 0;
	DIR *folder;

	*count = 0;
	snprintf(path, sizeof path, "/proc/%lld/task", (long long)pid);
	folder = opendir(path);
	if (!folder)
		return NULL;
	while ((entry = readdir(folder)) && *count < TASKS_MOST) {
		struct process_task *task;
		int64_t tid = strtoll(entry->d_name, NULL, 10);

		if (tid <= 0)
			continue;
		NEED_ROOM(rows, *count, room);
		task = &rows[(*count)++];
		task->tid = tid;
		task->state = process_task_state(pid, tid);
		read_name(pid, task);
		read_inner(pid, task);
	}
	closedir(folder);
	return rows;
}
