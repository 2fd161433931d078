/* ps.c - `profd ps`: the registered processes of all daemons. */
#include "client/link/collect.h"
#include "client/link/forked.h"
#include "client/ui/json.h"
#include "client/ui/listing.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <stdlib.h>
#include <string.h>

static const struct column columns[] = {
	{"pid", "PID", COLUMN_NUMBER, 0},
	{"user", "USER", COLUMN_TEXT, 0},
	{"uid", "UID", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	{"name", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},
	{"job", "JOB", COLUMN_TEXT, COLUMN_OPTIONAL},
	{"rank", "RANK", COLUMN_NUMBER, COLUMN_OPTIONAL},
	{"world_size", "WORLD", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	{"role", "ROLE", COLUMN_TEXT, COLUMN_OPTIONAL},
	{"step", "STEP", COLUMN_NUMBER, 0},
	{"step_ns", "STEP TIME", COLUMN_DURATION, 0},
	{"step_source", "STEPS BY", COLUMN_TEXT, 0},
	{"step_note", "NOTE", COLUMN_TEXT, COLUMN_OPTIONAL},
	{"phase", "PHASE", COLUMN_TEXT, COLUMN_DATA_ONLY},
	{"batches", "BATCHES", COLUMN_TEXT, COLUMN_TABLE_ONLY | COLUMN_OPTIONAL | COLUMN_ELASTIC},
	{"batches_train", "", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	{"batches_validation", "", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	{"batches_test", "", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	{"batches_evaluation", "", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	{"batches_inference", "", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	{"state", "STATE", COLUMN_TEXT, 0},
	{"capture_id", "CAPTURE", COLUMN_TEXT, COLUMN_OPTIONAL},
	{"command", "COMMAND", COLUMN_TEXT, COLUMN_ELASTIC},
};

static const struct listing listing = {"ps", "processes", COUNTED(columns)};

static bool wanted(const struct arguments *arguments, const cJSON *process)
{
	const char *glob = arguments_text(arguments, "name", NULL);
	const char *job = arguments_text(arguments, "job", NULL);
	const char *name = json_text(process, "name");
	const char *own_job = json_text(process, "job");
	double pid = json_number(process, "pid", 0);

	if (glob && !(name && glob_matches(glob, name)))
		return false;
	if (job && !(own_job && strcmp(job, own_job) == 0))
		return false;
	for (size_t i = 0; i < arguments->pid_count; i++)
		if ((double)arguments->pids[i] == pid)
			return true;
	return arguments->pid_count == 0;
}

static const char *text_of(const cJSON *process, const char *key)
{
	const char *text = json_text(process, key);

	return text ? text : "";
}

/* The ranks of a job one below the other, jobs without a name first. */
static int by_place(const void *a, const void *b)
{
	const cJSON *one = *(cJSON *const *)a, *other = *(cJSON *const *)b;
	static const char *const numbers[] = {"rank", "pid"};
	int order = strcmp(text_of(one, "job"), text_of(other, "job"));

	for (size_t i = 0; !order && i < sizeof numbers / sizeof *numbers; i++) {
		double left = json_number(one, numbers[i], -1), right = json_number(other, numbers[i], -1);

		order = (left > right) - (left < right);
	}
	return order;
}

static bool unseen(const cJSON *processes)
{
	const cJSON *process;

	cJSON_ArrayForEach(process, processes)
	{
		if (json_number(process, "pid", 0) <= 0)
			return true;
	}
	return false;
}

/* Where what was asked for shows no steps its children may be the ranks. */
static void tell_forked(const cJSON *processes)
{
	int64_t *pids = need(calloc((size_t)cJSON_GetArraySize(processes) + 1, sizeof *pids));
	const cJSON *process;
	size_t count = 0;

	cJSON_ArrayForEach(process, processes)
	{
		if (json_number(process, "step", 0) <= 0)
			pids[count++] = (int64_t)json_number(process, "pid", 0);
	}
	forked_note(pids, count);
	free(pids);
}

static bool listed(const cJSON *processes, int64_t pid)
{
	const cJSON *process;

	cJSON_ArrayForEach(process, processes)
	{
		if (json_number(process, "pid", 0) == (double)pid)
			return true;
	}
	return false;
}

/* Why pids that were asked for are not in the list: their daemon's own sentence. */
static int explain(struct daemons *daemons, const struct arguments *arguments, const cJSON *processes)
{
	int code = EXIT_DONE;

	for (size_t i = 0; i < arguments->pid_count; i++) {
		cJSON *request = request_new("ps");
		struct collect none = {"none", NULL};
		struct failure failure;

		if (listed(processes, arguments->pids[i])) {
			cJSON_Delete(request);
			continue;
		}
		need(cJSON_AddNumberToObject(request, "pid", (double)arguments->pids[i]));
		daemons_query(daemons, request, collect_row, &none, &failure);
		if (failure.error != ERROR_NONE) {
			int own = failure_print(&failure);

			code = code ? code : own;
		}
		cJSON_Delete(request);
	}
	if (!code && cJSON_GetArraySize(processes) == 0)
		code = fail(EXIT_NO_TARGET, "no registered process matches; `profd ps` without a filter lists all");
	return code;
}

int command_ps(struct arguments *arguments)
{
	enum output_format format = arguments_format(arguments);
	bool filtered = arguments->given_count > (arguments_has(arguments, "format") ? 1u : 0u);
	struct daemons daemons;
	cJSON *request, *processes;
	int code = daemons_need(&daemons);

	if (code)
		return code;
	request = request_new("ps");
	code = collect_rows(&daemons, request, "process", &processes);
	if (code == EXIT_DONE) {
		for (int i = cJSON_GetArraySize(processes); i > 0; i--)
			if (!wanted(arguments, cJSON_GetArrayItem(processes, i - 1)))
				cJSON_DeleteItemFromArray(processes, i - 1);
		json_sort(processes, by_place);
		if (filtered)
			code = explain(&daemons, arguments, processes);
		listing_print(&listing, processes, format);
		if (unseen(processes) && format == FORMAT_TABLE)
			note("where there is no pid the process lives outside of this container: --name and --job "
			     "reach it");
		if (format == FORMAT_TABLE)
			tell_forked(processes);
		if (cJSON_GetArraySize(processes) == 0 && !filtered && format == FORMAT_TABLE)
			note("no process is registered; start one with `profd run -- COMMAND`, or put `eval "
			     "\"$(profd env)\"` into its job script");
	}
	cJSON_Delete(processes);
	cJSON_Delete(request);
	daemons_deinit(&daemons);
	return code;
}
