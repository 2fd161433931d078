/* profiler.c - see profiler.h. */
#include "profiler.h"

#include "check.h"

#include "client/process/interpreter.h"
#include "client/process/memory.h"
#include "client/process/watched.h"
#include "client/ui/failure.h"
#include "client/ui/text.h"

#include "proto/python/profiler.h"
#include "proto/python/proof.h"

#include <fcntl.h>
#include <stdlib.h>

/* Some hundred tell it. */
#define READS_MOST 1000000

struct look {
	int64_t pid;
	bool on;
};

static void look(void *pointer)
{
	struct look *look = pointer;
	struct process_memory process;
	struct process_objects objects;
	struct interpreter found;
	struct python python;

	if (process_memory_open(&process, look->pid, READS_MOST, O_RDONLY) < 0)
		return;
	if (process_objects_read(&objects, look->pid) == 0) {
		look->on = interpreter_find(&process.memory, &objects, &found) &&
			   python_open(&python, &process.memory, found.runtime, found.minor) == PYTHON_OK &&
			   !python_disproved(&python) && python_torch_profiles(&python);
		process_objects_free(&objects);
	}
	process_memory_close(&process);
}

void doctor_profiler(int64_t pid, struct table *checks)
{
	struct look *look_at = need(calloc(1, sizeof *look_at));

	look_at->pid = pid;
	/* Where it does not come back the look goes on, and so has to keep what it writes to. */
	if (!watched_run(look, look_at, WATCHED_SECONDS))
		return;
	if (look_at->on)
		doctor_check(
			checks, "profiler", "warning",
			"torch.profiler records in this process; where it records CUDA it holds CUPTI: until it ends a capture "
			"has no kernels, and says so; meanwhile its own cost is in a capture's times, too");
	free(look_at);
}
