/* stack.c - `profd stack`: where the Python threads of processes stand now, or for a while, read from outside. */
#include "client/attach/find.h"
#include "client/native/libdw.h"
#include "client/stack/print.h"
#include "client/stack/ranks.h"
#include "client/stack/read.h"
#include "client/stack/sample_print.h"
#include "client/ui/failure.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_LIMIT 15

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

static int none_found(const char *job, const char *name)
{
	return fail(EXIT_NO_TARGET, "%s%.100s: no process here that you may look into has this %s and runs Python",
		    job ? "job " : "", job ? job : name, job ? "job (of those that launchers name)" : "name");
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
		code = none_found(job, name);
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

/* ---------------------------------------------------------------- for a while */

/* To be freed; NULL, and *ret_code, after a sentence. */
static int64_t *pids_of(const struct arguments *arguments, size_t *ret_count, int *ret_code)
{
	const char *job = arguments_text(arguments, "job", NULL), *name = arguments_text(arguments, "name", NULL);
	size_t count = arguments->pid_count;
	struct found_process *found = count ? NULL : find_python(job, name, &count);

	*ret_count = count;
	if (!count) {
		free(found);
		*ret_code = none_found(job, name);
		return NULL;
	}
	int64_t *pids = need(calloc(count, sizeof *pids));
	for (size_t i = 0; i < count; i++)
		pids[i] = found ? found[i].pid : arguments->pids[i];
	free(found);
	return pids;
}

static int for_a_while(const struct arguments *arguments)
{
	const char *format = arguments_text(arguments, "format", "table");
	struct sample_wish wish = {.ns = arguments_number(arguments, "duration", 0),
				   .rate = (unsigned)arguments_number(arguments, "rate", 100),
				   .children = arguments_has(arguments, "children")};
	struct samples samples;
	int code = EXIT_DONE;
	size_t count;
	int64_t *pids = pids_of(arguments, &count, &code);

	if (!pids)
		return code;
	sample(&samples, pids, count, &wish);
	free(pids);
	for (size_t i = 0; i < samples.count; i++)
		code = tell_failure(samples.rows[i]->about, code);
	if (strcmp(format, "json") == 0) {
		cJSON *object = json_new("stack");

		sample_json(&samples, object);
		json_print(object);
	} else if (strcmp(format, "folded") == 0) {
		sample_print_folded(&samples, arguments_has(arguments, "idle"));
	} else {
		sample_print(&samples, (size_t)arguments_number(arguments, "limit", TABLE_LIMIT));
	}
	sample_free(&samples);
	return code;
}

/* What goes with --duration alone, or not with it. 0, or an exit code after a sentence. */
static int check_while(const struct arguments *arguments)
{
	static const char *const with[] = {"rate", "children", "limit"};
	bool folded = strcmp(arguments_text(arguments, "format", "table"), "folded") == 0;

	if (arguments_has(arguments, "idle") && !folded)
		return fail(EXIT_USAGE,
			    "--idle is of --format folded: tables and JSON have threads that were asleep anyway");
	if (arguments_has(arguments, "duration"))
		return arguments_has(arguments, "native")
			       ? fail(EXIT_USAGE, "--native is of one look: leave --native or --duration out")
			       : 0;
	for (size_t i = 0; i < sizeof with / sizeof *with; i++)
		if (arguments_has(arguments, with[i]))
			return fail(EXIT_USAGE, "--%s goes with --duration TIME, which looks for so long", with[i]);
	return folded ? fail(EXIT_USAGE, "--format folded goes with --duration TIME, which looks for so long") : 0;
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
	code = check_while(arguments);
	if (code)
		return code;
	if (arguments_has(arguments, "duration"))
		return for_a_while(arguments);
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
