/* trigger_summary.c - see trigger_summary.h. */
#include "trigger_summary.h"

#include "client/report/cost.h"
#include "client/report/summary.h"
#include "client/ui/json.h"
#include "client/ui/print.h"
#include "client/ui/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_KERNELS 10
#define HEAD_COPIES 5
#define HEAD_OPERATORS 10
#define HEAD_RANGES 5
#define HEAD_STEPS 10

static void heading(const struct screen *screen, const char *text)
{
	printf("\n%s%s%s\n", screen_bold(screen), text, screen_plain(screen));
}

static const cJSON *collector_of(const cJSON *summary, const char *name)
{
	const cJSON *row;

	cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(summary, "collectors"))
	{
		const char *collector = json_text(row, "collector");

		if (collector && strcmp(collector, name) == 0)
			return row;
	}
	return NULL;
}

bool trigger_collector_on(const cJSON *summary, const char *name)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(collector_of(summary, name), "on"));
}

/* Why a table has no rows. */
static void print_empty(const cJSON *summary, const char *collector)
{
	const char *sentence = json_text(collector_of(summary, collector), "sentence");
	char *safe = text_safe(sentence ? sentence : "");

	if (trigger_collector_on(summary, collector))
		puts("  none");
	else
		printf("  not recorded%s%s\n", *safe ? ": " : "", safe);
	free(safe);
}

bool trigger_simulated(const struct trigger_result *result)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(result->followed->captured, "simulated"));
}

static void device_heading(const struct trigger_result *result, const struct screen *screen, const char *text)
{
	char whole[96];

	snprintf(whole, sizeof whole, "%s%s", text, trigger_simulated(result) ? " (simulated GPU)" : "");
	heading(screen, whole);
}

static void print_operators(const struct trigger_result *result, const struct screen *screen)
{
	int64_t self = summary_self_cpu(result->summary);
	char figure[TEXT_FIGURE_BYTES];
	struct table *table = summary_operators(result->summary);

	if (trigger_collector_on(result->summary, "cupti"))
		device_heading(result, screen, "Operators by self device time");
	else
		heading(screen, "Operators by self CPU time");
	if (!table_rows(table)) {
		print_empty(result->summary, "torch");
	} else {
		table_print(table, screen, HEAD_OPERATORS);
		if (self >= 0)
			printf("Self CPU time total: %s\n", text_duration(figure, self));
	}
	table_free(table);
}

/* Is it null although the GPU was recorded? */
static bool refused(const cJSON *summary, const char *key)
{
	return trigger_collector_on(summary, "cupti") &&
	       cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(summary, "kernels")) &&
	       cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(summary, key));
}

static void print_kernels(const struct trigger_result *result, const struct screen *screen)
{
	struct table *table = summary_kernels(result->summary);

	device_heading(result, screen, "Kernels by total time");
	if (table_rows(table))
		table_print(table, screen, HEAD_KERNELS);
	else
		print_empty(result->summary, "cupti");
	table_free(table);
	table = summary_copies(result->summary);
	bool copies = !refused(result->summary, "copies"), sets = !refused(result->summary, "sets");
	if (table_rows(table) || !copies || !sets) {
		device_heading(result, screen, "Copies and memsets");
		if (table_rows(table))
			table_print(table, screen, HEAD_COPIES);
		if (!copies)
			puts("  copies: not recorded, CUPTI refuses it");
		if (!sets)
			puts("  memsets: not recorded, CUPTI refuses it");
	}
	table_free(table);
}

static void print_ranges(const struct trigger_result *result, const struct screen *screen)
{
	struct table *table = summary_ranges(result->summary, result->wall);

	if (table_rows(table)) {
		heading(screen, "Ranges by total time");
		table_print(table, screen, HEAD_RANGES);
	}
	table_free(table);
}

static void print_losses(const struct trigger_result *result, const struct screen *screen)
{
	struct table *table = summary_dropped(result->summary);

	heading(screen, "Dropped or incomplete events");
	if (table_rows(table))
		table_print(table, screen, 0);
	else
		puts("  none");
	table_free(table);
}

static void print_cost(const struct trigger_result *result, const struct screen *screen)
{
	struct table *table = report_cost_summary(result->summary);

	heading(screen, "Cost of the capture to the job");
	table_print(table, screen, 0);
	table_free(table);
}

void trigger_print_notes(const struct trigger_result *result)
{
	const cJSON *note;

	cJSON_ArrayForEach(note, cJSON_GetObjectItemCaseSensitive(result->summary, "notes"))
	{
		char *safe = text_safe(cJSON_IsString(note) ? note->valuestring : "");

		printf("note: %s\n", safe);
		free(safe);
	}
}

void trigger_print_head(const struct trigger_result *result, const struct screen *screen)
{
	const cJSON *captured = result->followed->captured;
	char median[TEXT_FIGURE_BYTES], events[TEXT_FIGURE_BYTES], lost[TEXT_FIGURE_BYTES];
	const char *name = json_text(captured, "name");
	char *safe = text_safe(name ? name : "");
	struct table *steps;
	char what[128], busy[48] = "", pid[TEXT_FIGURE_BYTES];

	if (result->busy >= 0)
		snprintf(busy, sizeof busy, ", device busy %.1f%%", result->busy);
	if (result->followed->window)
		snprintf(what, sizeof what, "a window of %s", text_duration(median, result->wall));
	else
		snprintf(what, sizeof what, "%.0f of %.0f steps%s%s", json_number(captured, "steps_recorded", 0),
			 json_number(captured, "steps_wanted", 0), result->median > 0 ? ", median " : "",
			 result->median > 0 ? text_duration(median, result->median) : "");
	printf("%scapture %s%s: %s, %s %s, %s%s, %s events, %s dropped%s\n", screen_bold(screen), result->followed->id,
	       screen_plain(screen), result->followed->status, text_pid(pid, result->followed->pid), safe, what, busy,
	       text_count(events, (int64_t)json_number(captured, "events", 0)),
	       text_count(lost, (int64_t)json_number(captured, "lost", 0)),
	       trigger_simulated(result) ? ", SIMULATED GPU" : "");
	free(safe);
	trigger_print_notes(result);
	if (result->followed->window)
		return;
	steps = summary_steps(result->summary);
	if (table_rows(steps)) {
		heading(screen, "Steps");
		table_print(steps, screen, HEAD_STEPS);
	}
	table_free(steps);
}

void trigger_print_tables(const struct trigger_result *chosen, const struct screen *screen)
{
	/* Where there is a GPU, what it did comes first. */
	if (trigger_collector_on(chosen->summary, "cupti"))
		print_kernels(chosen, screen);
	print_operators(chosen, screen);
	if (!trigger_collector_on(chosen->summary, "cupti"))
		print_kernels(chosen, screen);
	print_ranges(chosen, screen);
	print_losses(chosen, screen);
	print_cost(chosen, screen);
}
