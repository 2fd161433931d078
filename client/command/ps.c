/* ps.c - `profd ps`: the registered processes of all daemons. */
#include "../command.h"
#include "../output.h"
#include "../text.h"

#include <string.h>

enum {
	PS_PID,
	PS_USER,
	PS_UID,
	PS_NAME,
	PS_JOB,
	PS_RANK,
	PS_WORLD,
	PS_STEP,
	PS_STEP_TIME,
	PS_SOURCE,
	PS_STATE,
	PS_CAPTURE,
	PS_COMMAND
};

static const struct column columns[] = {
	[PS_PID] = {"pid", "PID", COLUMN_NUMBER, 0},
	[PS_USER] = {"user", "USER", COLUMN_TEXT, 0},
	[PS_UID] = {"uid", "UID", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	[PS_NAME] = {"name", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},
	[PS_JOB] = {"job", "JOB", COLUMN_TEXT, COLUMN_OPTIONAL},
	[PS_RANK] = {"rank", "RANK", COLUMN_NUMBER, COLUMN_OPTIONAL},
	[PS_WORLD] = {"world_size", "WORLD", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	[PS_STEP] = {"step", "STEP", COLUMN_NUMBER, 0},
	[PS_STEP_TIME] = {"step_ns", "STEP TIME", COLUMN_DURATION, 0},
	[PS_SOURCE] = {"step_source", "STEPS BY", COLUMN_TEXT, 0},
	[PS_STATE] = {"state", "STATE", COLUMN_TEXT, 0},
	[PS_CAPTURE] = {"capture_id", "CAPTURE", COLUMN_TEXT, COLUMN_OPTIONAL},
	[PS_COMMAND] = {"command", "COMMAND", COLUMN_TEXT, COLUMN_ELASTIC},
};

static bool wanted(const struct arguments *arguments, const cJSON *process)
{
	const char *glob = arguments_text(arguments, "name", NULL);
	const char *job = arguments_text(arguments, "job", NULL);
	const char *name = reply_text(process, "name");
	const char *own_job = reply_text(process, "job");
	double pid = reply_number(process, "pid", 0);

	if (glob && !(name && glob_matches(glob, name)))
		return false;
	if (job && !(own_job && strcmp(job, own_job) == 0))
		return false;
	for (size_t i = 0; i < arguments->pid_count; i++)
		if ((double)arguments->pids[i] == pid)
			return true;
	return arguments->pid_count == 0;
}

static struct table *tabulate(const cJSON *processes)
{
	struct table *table = table_new(columns, sizeof columns / sizeof *columns);
	const cJSON *process;

	cJSON_ArrayForEach(process, processes)
	{
		table_add(table);
		for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
			table_set_member(table, c, process, columns[c].key);
	}
	return table;
}

static const char *text_of(const cJSON *process, const char *key)
{
	const char *text = reply_text(process, key);

	return text ? text : "";
}

/* The ranks of a job one below the other, jobs without a name first. */
static int by_place(const void *a, const void *b)
{
	const cJSON *one = *(cJSON *const *)a, *other = *(cJSON *const *)b;
	static const char *const numbers[] = {"rank", "pid"};
	int order = strcmp(text_of(one, "job"), text_of(other, "job"));

	for (size_t i = 0; !order && i < sizeof numbers / sizeof *numbers; i++) {
		double left = reply_number(one, numbers[i], -1), right = reply_number(other, numbers[i], -1);

		order = (left > right) - (left < right);
	}
	return order;
}

static bool listed(const cJSON *processes, int64_t pid)
{
	const cJSON *process;

	cJSON_ArrayForEach(process, processes)
	{
		if (reply_number(process, "pid", 0) == (double)pid)
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
	struct daemons daemons;
	struct collect collect = {"process", NULL};
	struct failure failure;
	cJSON *request;
	bool filtered = arguments->given_count > (arguments_has(arguments, "format") ? 1u : 0u);
	int code = daemons_need(&daemons);

	if (code)
		return code;
	request = request_new("ps");
	collect.array = need(cJSON_CreateArray());
	if (!daemons_query(&daemons, request, collect_row, &collect, &failure)) {
		code = failure_print(&failure);
	} else {
		enum output_format format = arguments_format(arguments);

		for (int i = cJSON_GetArraySize(collect.array); i > 0; i--)
			if (!wanted(arguments, cJSON_GetArrayItem(collect.array, i - 1)))
				cJSON_DeleteItemFromArray(collect.array, i - 1);
		json_sort(collect.array, by_place);
		if (filtered)
			code = explain(&daemons, arguments, collect.array);
		if (format == FORMAT_JSON) {
			cJSON *object = json_new("ps");

			cJSON_AddItemToObject(object, "processes", need(cJSON_Duplicate(collect.array, true)));
			json_print(object);
		} else {
			struct table *table = tabulate(collect.array);
			struct screen screen = screen_output();

			if (format == FORMAT_CSV)
				table_csv(table, stdout, 0);
			else if (table_rows(table))
				table_print(table, &screen, 0);
			else if (!filtered)
				note("no process is registered; start one with `profd run -- COMMAND`, or put `eval "
				     "\"$(profd env)\"` into its job script");
			table_free(table);
		}
	}
	cJSON_Delete(collect.array);
	cJSON_Delete(request);
	daemons_deinit(&daemons);
	return code;
}
