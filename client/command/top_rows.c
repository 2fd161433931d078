/* top_rows.c - see top_rows.h. The daemons read the step times from the jobs' status pages: no job is woken. */
#include "top_rows.h"

#include "client/link/collect.h"
#include "client/reader/capture.h"
#include "client/snapshot/series.h"
#include "client/snapshot/snapshot.h"
#include "client/ui/clock.h"
#include "client/ui/json.h"
#include "client/ui/text.h"

#include <stdlib.h>
#include <string.h>

/* The captures are asked for this often. */
#define CAPTURES_NS 5000000000ll
#define CAPTURES_MOST 200
/* A job has not stepped lately where its last step is older than this many steps, and than LATE_NS. */
#define LATE_STEPS 3
#define LATE_NS 2000000000ll

void top_forget(struct top_memory *memory)
{
	cJSON_Delete(memory->captures);
	cJSON_Delete(memory->verdicts);
	*memory = (struct top_memory){0};
}

static const char *text_of(const cJSON *row, const char *key)
{
	const char *text = json_text(row, key);
	return text ? text : "";
}

/* --- what is known of captures --- */

static void ask_captures(struct daemons *daemons, struct top_memory *memory)
{
	struct collect collect = {"capture", need(cJSON_CreateArray())};
	cJSON *request = request_new("captures");
	struct failure failure;
	need(cJSON_AddNumberToObject(request, "limit", CAPTURES_MOST));
	daemons_query(daemons, request, collect_row, &collect, &failure);
	cJSON_Delete(request);
	cJSON_Delete(memory->captures);
	memory->captures = collect.array;
	if (!memory->verdicts)
		memory->verdicts = need(cJSON_CreateObject());
	memory->asked = clock_now();
}

/* Of a finished capture it never changes. */
static const char *verdict_of(struct daemons *daemons, struct top_memory *memory, const cJSON *capture)
{
	const char *id = json_text(capture, "capture_id"), *verdict;
	struct failure failure;
	cJSON *summary;
	if (!id)
		return NULL;
	if (!cJSON_HasObjectItem(memory->verdicts, id)) {
		summary = capture_summary(daemons, id, &failure);
		verdict = json_text(cJSON_GetObjectItemCaseSensitive(summary, "verdict"), "verdict");
		json_add_text(memory->verdicts, id, verdict);
		cJSON_Delete(summary);
	}
	return json_text(memory->verdicts, id);
}

/* The newest capture of a process that has ended. */
static const cJSON *capture_of(const struct top_memory *memory, const cJSON *process)
{
	double pid = json_number(process, "pid", 0);
	const cJSON *capture;
	cJSON_ArrayForEach(capture, memory->captures)
	{
		if (pid > 0 && json_number(capture, "pid", 0) == pid && json_text(capture, "finished_at") &&
		    strcmp(text_of(capture, "name"), text_of(process, "name")) == 0 &&
		    strcmp(text_of(capture, "started_at"), text_of(process, "registered_at")) > 0)
			return capture;
	}
	return NULL;
}

/* --- jobs --- */

/* Is the process of that job? Those without a job's id are a job of their own. */
static bool is_of(const cJSON *job, const cJSON *process)
{
	return *text_of(process, "job") && strcmp(text_of(job, "job"), text_of(process, "job")) == 0 &&
	       strcmp(text_of(job, "name"), text_of(process, "name")) == 0 &&
	       json_number(job, "uid", -1) == json_number(process, "uid", -1);
}

static cJSON *job_of(cJSON *jobs, const cJSON *process)
{
	static const char *const texts[] = {"job", "name", "user"};
	cJSON *job;
	cJSON_ArrayForEach(job, jobs)
	{
		if (is_of(job, process))
			return job;
	}
	job = need(cJSON_CreateObject());
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		json_add_text(job, texts[i], *text_of(process, texts[i]) ? text_of(process, texts[i]) : NULL);
	need(cJSON_AddNumberToObject(job, "uid", json_number(process, "uid", -1)));
	need(cJSON_AddNumberToObject(job, "ranks", 0));
	need(cJSON_AddArrayToObject(job, "pids"));
	need(cJSON_AddArrayToObject(job, "captures"));
	json_add_text(job, "state", "idle");
	cJSON_AddItemToArray(jobs, job);
	return job;
}

static void set(cJSON *object, const char *key, cJSON *value)
{
	cJSON_DeleteItemFromObjectCaseSensitive(object, key);
	cJSON_AddItemToObject(object, key, need(value));
}

static double rate_of(const cJSON *times)
{
	double sum = 0;
	int n = 0;
	const cJSON *time;
	cJSON_ArrayForEach(time, times)
	{
		sum += time->valuedouble;
		n++;
	}
	return sum > 0 ? n * 1e9 / sum : -1;
}

/* How long ago its last step was, where that is longer than a step takes; 0: it steps. */
static int64_t stands_still(const cJSON *process)
{
	int64_t ago, step = (int64_t)json_number(process, "step_ns", 0);
	snapshot_is_stalled(json_text(process, "last_step_at"), step, clock_of(CLOCK_REALTIME), &ago);
	return ago > LATE_NS && ago > LATE_STEPS * step ? ago : 0;
}

/* Step times do not tell which rank of a job is slow: the ranks wait for each other, and `profd ranks` finds it. So a
 * job's figures are those of its first rank that steps. */
static void take_figures(cJSON *job, const cJSON *process, double pid)
{
	static const char *const keys[] = {"step", "step_ns", "step_times_ns"};
	cJSON *pids = cJSON_GetObjectItemCaseSensitive(job, "pids");
	cJSON *shown = pid > 0 ? cJSON_CreateNumber(pid) : cJSON_CreateNull();
	double rate = rate_of(cJSON_GetObjectItemCaseSensitive(process, "step_times_ns"));
	if (json_number(job, "step_ns", 0) > 0 || (json_number(process, "step_ns", 0) <= 0 && pids->child)) {
		cJSON_AddItemToArray(pids, need(shown));
		return;
	}
	/* The first pid is that of the figures. */
	cJSON_InsertItemInArray(pids, 0, need(shown));
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const cJSON *item = cJSON_GetObjectItemCaseSensitive(process, keys[i]);
		set(job, keys[i], item ? cJSON_Duplicate(item, true) : cJSON_CreateNull());
	}
	set(job, "steps_per_second",
	    rate < 0 ? cJSON_CreateNull() : cJSON_CreateNumber(stands_still(process) ? 0 : rate));
}

/* Of all ranks the one that has not stepped for longest. */
static void take_idle(cJSON *job, const cJSON *process, double pid)
{
	int64_t still = stands_still(process);
	double rank = json_number(process, "rank", -1);
	bool longest = still > 0 && (double)still > json_number(job, "idle_ns", 0);
	if (!longest && cJSON_HasObjectItem(job, "idle_ns"))
		return;
	set(job, "idle_ns", longest ? cJSON_CreateNumber((double)still) : cJSON_CreateNull());
	set(job, "idle_pid", longest && pid > 0 ? cJSON_CreateNumber(pid) : cJSON_CreateNull());
	set(job, "idle_rank", longest && rank >= 0 ? cJSON_CreateNumber(rank) : cJSON_CreateNull());
}

static void add_process(struct daemons *daemons, struct top_memory *memory, cJSON *job, const cJSON *process)
{
	const char *state = text_of(process, "state"), *running = json_text(process, "capture_id");
	const cJSON *capture = capture_of(memory, process);
	const char *verdict = capture ? verdict_of(daemons, memory, capture) : NULL;
	double pid = json_number(process, "pid", 0);
	set(job, "ranks", cJSON_CreateNumber(json_number(job, "ranks", 0) + 1));
	take_figures(job, process, pid);
	take_idle(job, process, pid);
	if (*state && strcmp(state, "idle") != 0)
		set(job, "state", cJSON_CreateString(state));
	if (running)
		cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(job, "captures"),
				     need(cJSON_CreateString(running)));
	if (verdict && !json_text(job, "verdict")) {
		json_add_text(job, "verdict", verdict);
		json_add_text(job, "verdict_of", json_text(capture, "capture_id"));
	}
}

static int by_rank(const void *a, const void *b)
{
	const cJSON *one = *(cJSON *const *)a, *other = *(cJSON *const *)b;
	static const char *const keys[] = {"rank", "pid"};
	int order = 0;
	for (size_t i = 0; i < 2 && !order; i++) {
		double left = json_number(one, keys[i], -1), right = json_number(other, keys[i], -1);
		order = (left > right) - (left < right);
	}
	return order;
}

int top_look(struct daemons *daemons, struct top_memory *memory, cJSON **ret_jobs, struct failure *failure)
{
	struct collect collect = {"process", need(cJSON_CreateArray())};
	cJSON *request = request_new("ps");
	bool answered = daemons_query(daemons, request, collect_row, &collect, failure) > 0;
	const cJSON *process;
	cJSON *job;
	cJSON_Delete(request);
	*ret_jobs = need(cJSON_CreateArray());
	if (answered && (!memory->asked || clock_now() - memory->asked > CAPTURES_NS))
		ask_captures(daemons, memory);
	json_sort(collect.array, by_rank);
	cJSON_ArrayForEach(process, collect.array)
	{
		/* Launchers and workers of a process that steps. */
		if (!json_text(process, "role"))
			add_process(daemons, memory, job_of(*ret_jobs, process), process);
	}
	cJSON_Delete(collect.array);
	cJSON_ArrayForEach(job, *ret_jobs)
	{
		if (!cJSON_HasObjectItem(job, "verdict")) {
			json_add_text(job, "verdict", NULL);
			json_add_text(job, "verdict_of", NULL);
		}
	}
	if (answered)
		return EXIT_DONE;
	return failure->error == ERROR_NONE ? EXIT_NO_DAEMON : error_exit_code(failure->error);
}

/* --- order --- */

static enum top_order order;

static double first_pid(const cJSON *job)
{
	const cJSON *pid = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(job, "pids"), 0);
	return cJSON_IsNumber(pid) ? pid->valuedouble : 0;
}

static int by_order(const void *a, const void *b)
{
	const cJSON *one = *(cJSON *const *)a, *other = *(cJSON *const *)b;
	const char *key = order == TOP_BY_TIME ? "step_ns" : "steps_per_second";
	double left = json_number(one, key, -1), right = json_number(other, key, -1);
	int result = 0;
	if (order == TOP_BY_TIME || order == TOP_BY_RATE)
		result = (left < right) - (left > right);
	if (!result && order == TOP_BY_NAME)
		result = strcmp(text_of(one, "name"), text_of(other, "name"));
	if (!result)
		result = strcmp(text_of(one, "job"), text_of(other, "job"));
	if (!result)
		result = strcmp(text_of(one, "name"), text_of(other, "name"));
	return result ? result : (first_pid(one) > first_pid(other)) - (first_pid(one) < first_pid(other));
}

void top_sort(cJSON *jobs, enum top_order by)
{
	order = by;
	json_sort(jobs, by_order);
}

/* --- the table --- */

enum { T_PID, T_JOB, T_NAME, T_USER, T_RANKS, T_STEP, T_TIME, T_TREND, T_RATE, T_STATE, T_VERDICT, T_COUNT };

static const struct column columns[] = {
	[T_PID] = {"pids", "PID", COLUMN_TEXT, 0},
	[T_JOB] = {"job", "JOB", COLUMN_TEXT, COLUMN_OPTIONAL},
	[T_NAME] = {"name", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},
	[T_USER] = {"user", "USER", COLUMN_TEXT, COLUMN_SPARE},
	[T_RANKS] = {"ranks", "RANKS", COLUMN_COUNT, COLUMN_SPARE},
	[T_STEP] = {"step", "STEP", COLUMN_COUNT, 0},
	[T_TIME] = {"step_ns", "STEP TIME", COLUMN_DURATION, 0},
	[T_TREND] = {"", "LAST STEPS", COLUMN_TEXT, COLUMN_SPARE | COLUMN_TABLE_ONLY},
	[T_RATE] = {"steps_per_second", "STEPS/S", COLUMN_TEXT, 0},
	[T_STATE] = {"state", "STATE", COLUMN_TEXT, 0},
	[T_VERDICT] = {"verdict", "LAST VERDICT", COLUMN_TEXT, COLUMN_ELASTIC},
};

static void set_pid(struct table *table, const cJSON *job)
{
	const cJSON *pids = cJSON_GetObjectItemCaseSensitive(job, "pids"), *first = cJSON_GetArrayItem(pids, 0);
	char text[48];
	int more = cJSON_GetArraySize(pids) - 1;
	if (!cJSON_IsNumber(first))
		return;
	snprintf(text, sizeof text, more > 0 ? "%.0f +%d" : "%.0f", first->valuedouble, more);
	table_set_text(table, T_PID, text);
}

static void set_trend(struct table *table, const cJSON *job)
{
	const cJSON *times = cJSON_GetObjectItemCaseSensitive(job, "step_times_ns"), *time;
	double *values = need(calloc((size_t)cJSON_GetArraySize(times) + 1, sizeof *values));
	size_t n = 0;
	char *line;
	cJSON_ArrayForEach(time, times)
	{
		values[n++] = time->valuedouble;
	}
	line = series_sparkline(values, n, series_unicode());
	if (n)
		table_set_text(table, T_TREND, line);
	free(line);
	free(values);
}

/* "recording 17, 18", "idle", "no step for 12 s", "rank 3: no step for 12 s" */
static void set_state(struct table *table, const cJSON *job)
{
	const cJSON *captures = cJSON_GetObjectItemCaseSensitive(job, "captures"), *capture;
	double still = json_number(job, "idle_ns", 0), rank = json_number(job, "idle_rank", -1);
	char text[96], of[32] = "", figure[TEXT_FIGURE_BYTES];
	size_t n = (size_t)snprintf(text, sizeof text, "%.32s", text_of(job, "state"));
	if (rank >= 0 && json_number(job, "ranks", 0) > 1)
		snprintf(of, sizeof of, "rank %.0f: ", rank);
	if (!captures->child && still > 0)
		snprintf(text, sizeof text, "%sno step for %s", of,
			 text_duration(figure, (int64_t)still / 1000000000 * 1000000000));
	cJSON_ArrayForEach(capture, captures)
	{
		if (n < 48)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s %.16s", capture->prev->next ? "," : "",
					      capture->valuestring);
	}
	table_set_text(table, T_STATE, text);
}

struct table *top_table(const cJSON *jobs)
{
	static const int members[] = {T_JOB, T_NAME, T_USER, T_RANKS, T_STEP, T_TIME, T_VERDICT};
	struct table *table = table_new(columns, T_COUNT);
	const cJSON *job;
	cJSON_ArrayForEach(job, jobs)
	{
		double rate = json_number(job, "steps_per_second", -1);
		char text[48];
		table_add(table);
		set_pid(table, job);
		for (size_t i = 0; i < sizeof members / sizeof *members; i++)
			table_set_member(table, (size_t)members[i], job, columns[members[i]].key);
		set_trend(table, job);
		snprintf(text, sizeof text, rate >= 100 ? "%.0f" : rate >= 10 ? "%.1f" : "%.2f", rate);
		if (rate >= 0)
			table_set_text(table, T_RATE, text);
		set_state(table, job);
		if (cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(job, "captures")))
			table_mark(table);
	}
	return table;
}
