/* worker.c - see worker.h. A worker is known by where its main thread stands in Python: only newer releases of torch
 * give it a name (pt_data_worker). A rank is known in the same way, or by threads of its process group. */
#include "worker.h"

#include "client/process/facts.h"
#include "client/process/task.h"
#include "client/stack/read.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND_BYTES 4096

static bool ends(const char *text, const char *with)
{
	size_t bytes = strlen(text), wanted = strlen(with);

	return bytes >= wanted && strcmp(text + bytes - wanted, with) == 0;
}

static bool is_frame(const struct stack_frame *frame, const char *name, const char *file)
{
	return !frame->native && frame->name && frame->file && strcmp(frame->name, name) == 0 &&
	       ends(frame->file, file);
}

/* Does its main thread stand in that function? Further out than where multiprocessing begins a process, a forked
 * process has the frames of its parent. */
static bool stands_in(int64_t pid, const char *name, const char *file)
{
	struct stack_process *process = stack_read_in_time(pid, false);
	const struct stack_thread *main = process->count && process->threads[0].is_main ? process->threads : NULL;
	bool found = false;

	for (size_t i = 0; main && i < main->count && !found; i++) {
		found = is_frame(&main->frames[i], name, file);
		if (is_frame(&main->frames[i], "_bootstrap", "/multiprocessing/process.py"))
			break;
	}
	stack_process_free(process);
	return found;
}

bool rank_has_group(int64_t pid)
{
	size_t count;
	struct process_task *tasks = process_tasks(pid, &count);
	bool found = false;

	for (size_t i = 0; tasks && i < count && !found; i++)
		found = strncmp(tasks[i].name, "pt_gloo_", 8) == 0 || strncmp(tasks[i].name, "pt_nccl_", 8) == 0;
	free(tasks);
	return found;
}

bool rank_was_spawned(int64_t pid)
{
	return rank_has_group(pid) || stands_in(pid, "_wrap", "/torch/multiprocessing/spawn.py");
}

/* Python's server of forks, which stands between the two from Python 3.14 on if nothing else was asked for. */
static bool serves_forks(int64_t pid)
{
	char command[COMMAND_BYTES];

	process_command(pid, command, sizeof command);
	return strstr(command, "multiprocessing.forkserver") != NULL;
}

int64_t worker_of(int64_t pid)
{
	int64_t parent = (int64_t)process_number(pid, PROCESS_PARENT);

	if (parent <= 1 || !stands_in(pid, "_worker_loop", "/torch/utils/data/_utils/worker.py"))
		return 0;
	return serves_forks(parent) ? (int64_t)process_number(parent, PROCESS_PARENT) : parent;
}
