/* stack.c - `profd stack`: where the Python threads of processes stand now, read from outside. */
#include "client/attach/find.h"
#include "client/native/libdw.h"
#include "client/stack/print.h"
#include "client/stack/ranks.h"
#include "client/stack/read.h"
#include "client/ui/failure.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <stdio.h>
#include <stdlib.h>

static int tell_failure(const struct stack_process *process, int code)
{
	return process->error ? exit_worse(code, fail(process->error, "%s", process->sentence)) : code;
}

/* Each by itself, in the order in which they were named. */
static int by_pid(const struct arguments *arguments, bool native, cJSON *processes)
{
	int code = EXIT_DONE;

	for (size_t i = 0; i < arguments->pid_count; i++) {
		struct stack_process *process = stack_read_in_time(arguments->pids[i], native);

		code = tell_failure(process, code);
		if (processes)
			cJSON_AddItemToArray(processes, stack_json(process, NULL));
		else if (!process->error)
			stack_print(process);
		stack_process_free(process);
	}
	return code;
}

static int side_by_side(const char *job, const char *name, bool native, cJSON *processes)
{
	struct stack_ranks ranks = {0};
	char whose[128];
	size_t count;
	struct found_process *found = find_python(job, name, &count);
	int code = EXIT_DONE;

	snprintf(whose, sizeof whose, job ? "job %.100s" : "%.100s", job ? job : name);
	for (size_t i = 0; i < count; i++)
		stack_ranks_add(&ranks, found[i].pid, found[i].rank);
	free(found);
	if (count)
		stack_ranks_read(&ranks, native);
	else
		code = fail(EXIT_NO_TARGET, "%s: no process here that you may look into has this %s and runs Python",
			    whose, job ? "job (of those that launchers name)" : "name");
	for (size_t i = 0; i < ranks.count; i++) {
		code = tell_failure(ranks.rows[i].process, code);
		if (processes)
			cJSON_AddItemToArray(processes, stack_json(ranks.rows[i].process, &ranks.rows[i]));
	}
	if (!processes)
		stack_print_ranks(&ranks, whose);
	stack_ranks_free(&ranks);
	return code;
}

int command_stack(struct arguments *arguments)
{
	const char *job = arguments_text(arguments, "job", NULL), *name = arguments_text(arguments, "name", NULL);
	bool json = arguments_format(arguments) == FORMAT_JSON, native = arguments_has(arguments, "native");
	cJSON *object, *processes;
	int code;

	if (0u + (arguments->pid_count > 0) + !!job + !!name != 1)
		return fail(
			EXIT_USAGE,
			"of what? Give one of --pid PID, --job JOB and --name GLOB; `profd stack --help` explains it");
	if (native && !libdw_load())
		return fail(EXIT_FAILED, "native frames take " LIBDW_WANTED ", which cannot be loaded: %s",
			    libdw_failure());
	object = json_new("stack");
	processes = need(cJSON_AddArrayToObject(object, "processes"));
	code = arguments->pid_count ? by_pid(arguments, native, json ? processes : NULL)
				    : side_by_side(job, name, native, json ? processes : NULL);
	if (json)
		json_print(object);
	else
		cJSON_Delete(object);
	return code;
}
