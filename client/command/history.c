/* history.c - `profd history`: one job over its snapshots, oldest to newest. The figures are those of the captures'
 * summaries. */
#include "client/compare/shift.h"
#include "client/link/collect.h"
#include "client/reader/capture.h"
#include "client/report/summary.h"
#include "client/snapshot/series.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"
#include "history_print.h"

#include <stdlib.h>
#include <string.h>

#define LIMIT_DEFAULT 20

static bool wanted(const struct arguments *a, const cJSON *capture)
{
	const char *glob = arguments_text(a, "name", NULL), *name = json_text(capture, "name");

	if (glob && !(name && glob_matches(glob, name)))
		return false;
	if (arguments_has(a, "pid") && (double)arguments_number(a, "pid", 0) != json_number(capture, "pid", 0))
		return false;
	return !arguments_has(a, "rank") || (double)arguments_number(a, "rank", 0) == json_number(capture, "rank", -1);
}

/* Do several processes live now that nothing but the pid tells apart? */
static bool lives_twice(const cJSON *processes, const struct who *who)
{
	const cJSON *process;
	unsigned n = 0;

	cJSON_ArrayForEach(process, processes)
	{
		struct who one = who_of(process, false);

		n += who_same(who, &one);
	}
	return n > 1;
}

static struct series *sort_out(const cJSON *captures, const cJSON *processes, size_t *ret_count)
{
	struct series *series = NULL;
	size_t count = 0;
	const cJSON *capture;

	cJSON_ArrayForEach(capture, captures)
	{
		struct who who = who_of(capture, false), one = who_of(capture, true);
		size_t s = 0;

		while (s < count && !who_same(&series[s].who, &one))
			s++;
		if (s == count) {
			series = need(reallocarray(series, ++count, sizeof *series));
			series[s] = (struct series){.step_median = -1, .busy_median = -1};
			series[s].who = series_needs_pid(captures, &who) || lives_twice(processes, &who) ? one : who;
		}
		series[s].list = need(reallocarray(series[s].list, series[s].count + 1, sizeof *series[s].list));
		series[s].list[series[s].count++] = (struct snapshot){
			.capture = need(cJSON_Duplicate(capture, true)), .step = -1, .idle = -1, .busy = -1};
	}
	*ret_count = count;
	return series;
}

static void drop_older(struct series *series, int64_t limit)
{
	size_t over = series->count > (size_t)limit ? series->count - (size_t)limit : 0;

	for (size_t i = 0; i < over; i++)
		cJSON_Delete(series->list[i].capture);
	memmove(series->list, series->list + over, (series->count - over) * sizeof *series->list);
	series->count -= over;
}

static double median_of(const struct series *series, bool busy)
{
	double *values = need(calloc(series->count, sizeof *values)), median;
	size_t n = 0;

	for (size_t i = 0; i < series->count; i++) {
		double value = busy ? series->list[i].busy : series->list[i].step;

		if (value >= 0)
			values[n++] = value;
	}
	median = n ? series_median(values, n) : -1;
	free(values);
	return median;
}

static double median_between(const struct series *series, size_t from, size_t to)
{
	double *values = need(calloc(series->count, sizeof *values)), median;
	size_t n = 0;

	for (size_t i = from; i < to; i++)
		if (series->list[i].step >= 0)
			values[n++] = series->list[i].step;
	median = n ? series_median(values, n) : -1;
	free(values);
	return median;
}

/* Where the series has moved, if it has. */
static void find_change(struct series *series)
{
	double *values = need(calloc(series->count + 1, sizeof *values));
	size_t *places = need(calloc(series->count + 1, sizeof *places)), n = 0, cut;

	for (size_t i = 0; i < series->count; i++)
		if (series->list[i].step >= 0) {
			places[n] = i;
			values[n++] = series->list[i].step;
		}
	cut = shift_since(values, n, &series->since_p);
	series->since = cut && series->since_p <= SHIFT_LEVEL ? places[cut] : 0;
	series->step_before = median_between(series, 0, series->since);
	series->step_since = median_between(series, series->since, series->count);
	free(values);
	free(places);
}

static void load(struct daemons *daemons, struct series *series)
{
	for (size_t i = 0; i < series->count; i++) {
		struct snapshot *one = &series->list[i];
		const char *id = json_text(one->capture, "capture_id"), *path = json_text(one->capture, "daemon");
		struct failure failure;

		one->step = json_number(one->capture, "step_ns", -1);
		for (unsigned d = 0; d < daemons->count && !one->summary; d++) {
			struct daemons only = {.list = {daemons->list[d]}, .count = 1};

			if (id && path && strcmp(path, daemons->list[d].path) == 0)
				one->summary = capture_summary(&only, id, &failure);
		}
		if (!one->summary)
			continue;
		one->busy = summary_busy_percent(one->summary, NULL);
		one->idle = json_number(cJSON_GetObjectItemCaseSensitive(one->summary, "cost"), "step_before_ns", -1);
	}
	series->step_median = median_of(series, false);
	series->busy_median = median_of(series, true);
	find_change(series);
}

static void free_series(struct series *series, size_t count)
{
	for (size_t s = 0; s < count; s++) {
		for (size_t i = 0; i < series[s].count; i++) {
			cJSON_Delete(series[s].list[i].capture);
			cJSON_Delete(series[s].list[i].summary);
		}
		free(series[s].list);
	}
	free(series);
}

static int print_all(const struct arguments *a, struct daemons *daemons, const cJSON *captures, const char *label)
{
	enum output_format format = arguments_format(a);
	cJSON *request = request_new("ps"), *processes = need(cJSON_CreateArray());
	struct collect collect = {"process", processes};
	struct failure failure;
	struct series *series;
	size_t count;
	int code = EXIT_DONE;

	daemons_query(daemons, request, collect_row, &collect, &failure);
	series = sort_out(captures, processes, &count);
	for (size_t s = 0; s < count; s++) {
		drop_older(&series[s], arguments_number(a, "limit", LIMIT_DEFAULT));
		load(daemons, &series[s]);
	}
	if (count == 0)
		code = fail(EXIT_NO_TARGET,
			    "no snapshot matches%s%s; `profd snapshot` takes one, `profd captures` lists what there is",
			    label ? " with the label " : "", label ? label : "");
	history_print(series, count, label, format);
	free_series(series, count);
	cJSON_Delete(processes);
	cJSON_Delete(request);
	return code;
}

int command_history(struct arguments *arguments)
{
	const char *label =
		arguments_has(arguments, "any-label") ? NULL : arguments_text(arguments, "label", HISTORY_LABEL);
	struct daemons daemons;
	struct failure failure;
	cJSON *captures;
	int code;

	if (arguments_has(arguments, "any-label") && arguments_has(arguments, "label"))
		return fail(EXIT_USAGE, "give --label or --any-label, not both");
	code = daemons_need(&daemons);
	if (code)
		return code;
	captures = series_query(&daemons, label ? label : "", arguments_text(arguments, "job", NULL), &failure);
	if (captures) {
		for (int i = cJSON_GetArraySize(captures); i > 0; i--)
			if (!wanted(arguments, cJSON_GetArrayItem(captures, i - 1)))
				cJSON_DeleteItemFromArray(captures, i - 1);
		code = print_all(arguments, &daemons, captures, label);
	} else {
		code = failure_print(&failure);
	}
	cJSON_Delete(captures);
	daemons_deinit(&daemons);
	return code;
}
