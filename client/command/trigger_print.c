/* trigger_print.c - the answer of `profd trigger`. */
#include "trigger_print.h"
#include "proto/base/array.h"

#include "answer.h"
#include "ranks_answer.h"
#include "trigger_summary.h"

#include "client/link/follow_rows.h"
#include "client/reader/capture.h"
#include "client/report/about.h"
#include "client/report/cost.h"
#include "client/report/summary.h"
#include "client/ui/json.h"
#include "client/ui/print.h"
#include "client/ui/text.h"

#include <stdlib.h>
#include <string.h>

/* If the captures of all ranks together have at most so many events, the answer says at once who comes last: that takes
 * half a second. */
#define RANKS_EVENTS_MOST 1e6

static int by_place(const void *a, const void *b)
{
	const struct followed *one = a, *other = b;

	/* "9" before "10". */
	return ORDER(one->rank, other->rank) ?: ORDER(one->pid, other->pid) ?: ORDER(strlen(one->id), strlen(other->id)) ?: strcmp(one->id, other->id);
}

static void measure(struct trigger_result *result)
{
	const cJSON *steps = cJSON_GetObjectItemCaseSensitive(result->summary, "steps");
	const cJSON *step;

	if (!result->followed->window)
		result->median = (int64_t)json_number(result->followed->captured, "step_ns", 0);
	cJSON_ArrayForEach(step, steps)
	{
		int64_t wall = (int64_t)json_number(step, "wall_ns", 0);

		result->wall += wall;
		if (wall > result->slowest && !result->followed->window) {
			result->slowest = wall;
			result->slowest_step = (int64_t)json_number(step, "step", 0);
		}
	}
	result->busy = summary_busy_percent(result->summary, NULL);
	/* The summary lists only the first steps, so their sum is not the whole. A daemon of an older release does not
	 * tell the whole. */
	if (json_number(result->summary, "steps_total", 0) > cJSON_GetArraySize(steps))
		result->wall = 0;
	result->wall = (int64_t)json_number(result->summary, "wall_ns", (double)result->wall);
}

enum { A_RANK, A_PID, A_NAME, A_CAPTURE, A_STATUS, A_STEPS, A_MEDIAN, A_SLOWEST, A_STEP, A_BUSY, A_EVENTS, A_LOST };

static const struct column rank_columns[] = {
	[A_RANK] = {"rank", "RANK", COLUMN_NUMBER, COLUMN_OPTIONAL},
	[A_PID] = {"pid", "PID", COLUMN_NUMBER, 0},
	[A_NAME] = {"name", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},
	[A_CAPTURE] = {"capture_id", "CAPTURE", COLUMN_TEXT, 0},
	[A_STATUS] = {"status", "STATUS", COLUMN_TEXT, 0},
	[A_STEPS] = {"steps_recorded", "STEPS", COLUMN_COUNT, COLUMN_OPTIONAL},
	[A_MEDIAN] = {"step_ns", "STEP (MEDIAN)", COLUMN_DURATION, COLUMN_OPTIONAL},
	[A_SLOWEST] = {"slowest_step_ns", "SLOWEST STEP", COLUMN_DURATION, COLUMN_OPTIONAL},
	[A_STEP] = {"slowest_step", "WHICH", COLUMN_NUMBER, COLUMN_OPTIONAL},
	[A_BUSY] = {"device_busy_percent", "BUSY %", COLUMN_PERCENT, COLUMN_OPTIONAL},
	[A_EVENTS] = {"events", "EVENTS", COLUMN_COUNT, 0},
	[A_LOST] = {"lost", "DROPPED", COLUMN_COUNT, 0},
};

static struct table *rank_table(const struct trigger_result *results, size_t count)
{
	struct table *table = table_new(COUNTED(rank_columns));

	for (size_t i = 0; i < count; i++) {
		const struct trigger_result *one = &results[i];

		table_add(table);
		for (size_t c = 0; c < sizeof rank_columns / sizeof *rank_columns; c++)
			if (c != A_SLOWEST && c != A_STEP &&
			    !(one->followed->window && (c == A_STEPS || c == A_MEDIAN)))
				table_set_member(table, c, one->followed->captured, rank_columns[c].key);
		table_set_text(table, A_CAPTURE, one->followed->id);
		if (one->followed->pid > 0)
			table_set(table, A_PID, one->followed->pid);
		table_set_text(table, A_STATUS, one->followed->status);
		if (one->slowest > 0) {
			table_set(table, A_SLOWEST, one->slowest);
			table_set(table, A_STEP, one->slowest_step);
		}
		if (one->busy >= 0)
			table_set_real(table, A_BUSY, one->busy);
	}
	return table;
}

static void next_line(const char *command, const char *text)
{
	struct screen screen = screen_output();
	answer_next(&screen, command, text);
}

static bool several_ranks(const struct trigger_result *results, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (results[i].followed->rank >= 0 && results[i].followed->rank != results[0].followed->rank)
			return true;
	return false;
}

static void next_of_several(const struct trigger_result *results, size_t count, const char *id)
{
	char command[128];

	snprintf(command, sizeof command, "profd ranks %s", id);
	if (several_ranks(results, count))
		next_line(command, "which rank the others wait for");
	next_line("profd captures", "all captures, newest first");
}

static void print_next(const struct trigger_result *results, const struct trigger_result *result, size_t count)
{
	const char *id = result->followed->id;
	char command[128];

	puts("\nnext:");
	snprintf(command, sizeof command, "profd show %s", id);
	next_line(command, trigger_collector_on(result->summary, "cupti")
				   ? "steps, kernels, copies, operators, ranges, API calls, threads, dropped events"
				   : "steps, operators, ranges, threads, dropped events, cost");
	if (trigger_collector_on(result->summary, "shapes")) {
		snprintf(command, sizeof command, "profd show %s --group-by-shapes", id);
		next_line(command, "operators of different input shapes apart");
	}
	if (result->slowest_step && json_number(result->summary, "steps_total", 0) > 1) {
		snprintf(command, sizeof command, "profd show %s --step %lld", id, (long long)result->slowest_step);
		next_line(command, "the slowest step alone");
	}
	if (!json_text(result->followed->captured, "output")) {
		snprintf(command, sizeof command, "profd export %s", id);
		next_line(command, "a trace for ui.perfetto.dev or chrome://tracing");
	}
	if (count > 1)
		next_of_several(results, count, id);
}

/* What --output has written. */
static void print_written(const struct trigger_result *results, size_t count)
{
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		const char *path = json_text(results[i].followed->captured, "output");
		char *safe = text_safe(path ? path : "");

		if (path)
			printf("%s  %s\n", any ? "" : "\nwritten, for ui.perfetto.dev or chrome://tracing:\n", safe);
		any = any || path;
		free(safe);
	}
}

/* Of several captures: which one it is that follows. */
static void print_which(const struct trigger_result *chosen, const struct screen *screen)
{
	char pid[TEXT_FIGURE_BYTES], rank[32] = "";

	if (chosen->followed->rank >= 0)
		snprintf(rank, sizeof rank, ", rank %lld", (long long)chosen->followed->rank);
	printf("\n%scapture %s%s, %s%s%s\n", screen_bold(screen), chosen->followed->id, screen_plain(screen),
	       text_pid(pid, chosen->followed->pid), rank, trigger_simulated(chosen) ? ", SIMULATED GPU:" : ":");
	trigger_print_notes(chosen);
}

static void print_summary(const struct trigger_result *results, const struct trigger_result *chosen, size_t count,
			  const struct screen *screen)
{
	trigger_print_tables(chosen, screen);
	print_next(results, chosen, count);
}

/* The answer, from the capture's file. False: the file cannot be had, and it was said why. */
static bool print_answer(const struct follow *follow, const struct trigger_result *results,
			 const struct trigger_result *chosen, size_t count)
{
	struct daemons only = {.list = {follow->daemons->list[chosen->followed->daemon]}, .count = 1};
	struct capture capture;
	struct tables tables;
	cJSON *about;

	if (capture_open_id(&only, chosen->followed->id, &capture) != EXIT_DONE)
		return false;
	tables_init(&tables, &capture);
	about = about_capture(&capture);
	if (count > 1)
		putchar('\n');
	answer_line(&tables, about);
	trigger_print_notes(chosen);
	answer_print(&tables, about);
	if (count > 1)
		next_of_several(results, count, chosen->followed->id);
	cJSON_Delete(about);
	tables_deinit(&tables);
	capture_close(&capture);
	return true;
}

/* Which of the ranks the others wait for, where that is known. */
static void print_ranks(const struct trigger_result *results, size_t count, const struct screen *screen)
{
	const char **ids = need(calloc(count, sizeof *ids));
	size_t n = 0;
	double events = 0;
	struct side side = {0};
	struct ranks ranks = {0};

	for (size_t i = 0; i < count; i++) {
		events += json_number(results[i].followed->captured, "events", 0);
		if (results[i].summary && results[i].followed->rank >= 0)
			ids[n++] = results[i].followed->id;
	}
	/* All of it is read for that. */
	if (n > 1 && n <= SIDE_CAPTURES_MOST && events <= RANKS_EVENTS_MOST &&
	    side_open_all(ids, n, &side) == EXIT_DONE && ranks_compare(&side, &ranks) == EXIT_DONE && ranks.calls > 0) {
		char *answer = ranks_answer(&ranks);

		putchar('\n');
		print_wrapped(stdout, answer, 0, screen->width > 40 ? screen->width : SIZE_MAX, 0);
		putchar('\n');
		free(answer);
	}
	ranks_free(&ranks);
	side_close(&side);
	free(ids);
}

static void print_people(const struct follow *follow, struct trigger_result *results, size_t count)
{
	struct screen screen = screen_output();
	/* The first of several. Step times do not tell which rank is slow: the ranks that wait for it take as long. */
	const struct trigger_result *chosen = &results[0];
	struct table *table;

	if (!count)
		return;
	for (size_t i = count; i-- > 0;)
		chosen = results[i].summary ? &results[i] : chosen;
	if (count > 1) {
		table = rank_table(results, count);
		table_print(table, &screen, 0);
		table_free(table);
		if (several_ranks(results, count))
			print_ranks(results, count, &screen);
	}
	if (chosen->summary && !print_answer(follow, results, chosen, count)) {
		/* The file cannot be had: what the daemon itself says of it. */
		if (count > 1)
			print_which(chosen, &screen);
		else
			trigger_print_head(chosen, &screen);
		print_summary(results, chosen, count, &screen);
	} else if (!chosen->summary && count == 1) {
		trigger_print_head(chosen, &screen);
	}
	print_written(results, count);
}

static void print_ids(const struct follow *follow, enum output_format format)
{
	if (format == FORMAT_CSV)
		puts("capture_id");
	for (size_t i = 0; i < follow->count; i++)
		printf("%s\n", follow->captures[i].id);
}

static void print_json(const struct follow *follow)
{
	cJSON *object = json_new("trigger");
	cJSON *captures;
	const char *trigger = NULL;

	for (unsigned i = 0; i < follow->daemons->count && !trigger; i++)
		trigger = follow->trigger_id[i][0] ? follow->trigger_id[i] : NULL;
	json_add_text(object, "trigger_id", trigger);
	captures = need(cJSON_AddArrayToObject(object, "captures"));
	for (size_t i = 0; i < follow->count; i++) {
		const struct followed *one = &follow->captures[i];
		cJSON *row;

		if (one->captured) {
			row = need(cJSON_Duplicate(one->captured, true));
		} else {
			row = need(cJSON_CreateObject());
			json_add_text(row, "capture_id", one->id);
			json_add_pid(row, one->pid);
			if (one->rank >= 0)
				cJSON_AddNumberToObject(row, "rank", (double)one->rank);
			else
				cJSON_AddNullToObject(row, "rank");
			json_add_text(row, "status", one->status);
			cJSON_AddNullToObject(row, "reason");
			cJSON_AddNumberToObject(row, "steps_recorded", (double)one->step);
			cJSON_AddNullToObject(row, "events");
			cJSON_AddNullToObject(row, "lost");
		}
		cJSON_AddItemToArray(captures, row);
	}
	follow_add_others(object, follow);
	cJSON_AddItemToObject(object, "switched",
			      need(follow->switched ? cJSON_Duplicate(follow->switched, true) : cJSON_CreateArray()));
	json_print(object);
}

void trigger_print(struct follow *follow, enum output_format format)
{
	struct trigger_result *results;
	size_t count = 0;

	if (follow->count)
		qsort(follow->captures, follow->count, sizeof *follow->captures, by_place);
	if (format == FORMAT_JSON) {
		print_json(follow);
		return;
	}
	if (!follow->follow) {
		print_ids(follow, format);
		return;
	}
	results = need(calloc(follow->count + 1, sizeof *results));
	for (size_t i = 0; i < follow->count; i++) {
		const struct followed *one = &follow->captures[i];
		struct failure failure;

		if (!one->captured)
			continue;
		results[count].followed = one;
		/* A connection cannot be used again before its answer has been read to the end. */
		if (strcmp(one->status, "failed") != 0 && !follow->open[one->daemon] && !follow->cut_off) {
			struct daemons only = {.list = {follow->daemons->list[one->daemon]}, .count = 1};

			results[count].summary = capture_summary(&only, one->id, &failure);
			if (!results[count].summary && !follow->cancelled)
				failure_print(&failure);
		}
		measure(&results[count]);
		count++;
	}
	if (format == FORMAT_CSV) {
		struct table *table = rank_table(results, count);

		table_csv(table, stdout, 0);
		table_free(table);
	} else {
		print_people(follow, results, count);
	}
	for (size_t i = 0; i < count; i++)
		cJSON_Delete(results[i].summary);
	free(results);
}
