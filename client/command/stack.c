/* stack.c - `profd stack`: where the Python threads of a process stand now, read from outside. */
#include "client/process/watched.h"
#include "client/stack/print.h"
#include "client/stack/read.h"
#include "client/ui/failure.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <stdio.h>

static void read_it(void *pointer)
{
	struct stack_process *process = pointer;

	stack_read(process->pid, process);
}

int command_stack(struct arguments *arguments)
{
	enum output_format format = arguments_format(arguments);
	cJSON *object = json_new("stack");
	cJSON *processes = need(cJSON_AddArrayToObject(object, "processes"));
	int code = EXIT_DONE;

	if (!arguments->pid_count)
		code = fail(EXIT_USAGE, "of which process? Give --pid PID; `profd stack --help` explains it");
	for (size_t i = 0; i < arguments->pid_count; i++) {
		struct stack_process process = {.pid = arguments->pids[i]};

		watched_or_end(process.pid, read_it, &process);
		if (process.error)
			code = exit_worse(code, fail(process.error, "%s", process.sentence));
		if (format == FORMAT_JSON)
			cJSON_AddItemToArray(processes, stack_json(&process));
		else if (!process.error)
			stack_print(&process);
		stack_process_free(&process);
	}
	if (format == FORMAT_JSON && arguments->pid_count)
		json_print(object);
	else
		cJSON_Delete(object);
	return code;
}
