/* worker.c - see worker.h. It is known by where its main thread stands in Python: by its name alone (pt_data_worker) newer releases of
 * torch tell it. */
#include "worker.h"

#include "client/process/facts.h"
#include "client/stack/read.h"

#include <stdbool.h>
#include <string.h>

#define COMMAND_BYTES 4096

static bool ends(const char *text, const char *with)
{
	size_t bytes = strlen(text), wanted = strlen(with);

	return bytes >= wanted && strcmp(text + bytes - wanted, with) == 0;
}

static bool is_loop(const struct stack_frame *frame)
{
	return !frame->native && frame->name && frame->file && strcmp(frame->name, "_worker_loop") == 0 &&
	       ends(frame->file, "/torch/utils/data/_utils/worker.py");
}

static bool works_for_loader(int64_t pid)
{
	struct stack_process *process = stack_read_in_time(pid, false);
	bool works = false;

	for (size_t i = 0; i < process->count && process->threads[i].is_main; i++)
		for (size_t k = 0; k < process->threads[i].count && !works; k++)
			works = is_loop(&process->threads[i].frames[k]);
	stack_process_free(process);
	return works;
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

	if (parent <= 1 || !works_for_loader(pid))
		return 0;
	return serves_forks(parent) ? (int64_t)process_number(parent, PROCESS_PARENT) : parent;
}
