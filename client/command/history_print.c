/* history_print.c - see history_print.h. */
#include "history_print.h"

#include "history_data.h"

#include "client/compare/gather.h"
#include "client/compare/shift.h"
#include "client/ui/json.h"
#include "client/ui/print.h"
#include "client/ui/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_SHOWN 8

enum {
	CAPTURE,
	STARTED,
	STEPS,
	STEP,
	IDLE,
	CHANGE,
	BUSY,
	OPERATOR,
	OPERATOR_TIME,
	KERNEL,
	KERNEL_TIME,
	STATUS,
	COLUMNS
};
static const struct column snapshot_columns[] = {
	[CAPTURE] = {"capture_id", "ID", COLUMN_TEXT, 0},
	[STARTED] = {"started_at", "STARTED (UTC)", COLUMN_TEXT, 0},
	[STEPS] = {"steps_recorded", "STEPS", COLUMN_COUNT, 0},
	[STEP] = {"step_ns", "STEP", COLUMN_DURATION, 0},
	[IDLE] = {"idle_step_ns", "IDLE STEP", COLUMN_DURATION, COLUMN_SPARE},
	[CHANGE] = {"", "CHANGE", COLUMN_TEXT, 0},
	[BUSY] = {"device_busy_percent", "DEVICE BUSY", COLUMN_PERCENT, COLUMN_OPTIONAL},
	[OPERATOR] = {"", "TOP OPERATOR", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_ELASTIC | COLUMN_SPARE},
	[OPERATOR_TIME] = {"", "A STEP", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
	[KERNEL] = {"", "TOP KERNEL", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_ELASTIC | COLUMN_SPARE},
	[KERNEL_TIME] = {"", "A STEP", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
	[STATUS] = {"status", "STATUS", COLUMN_TEXT, COLUMN_OPTIONAL},
};

enum { NAME, TREND, LISTED, MEDIAN, NEWEST, NAME_CHANGE, NAME_COLUMNS };
static const struct column name_columns[] = {
	[NAME] = {"", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},	 [TREND] = {"", "TREND", COLUMN_TEXT, 0},
	[LISTED] = {"", "AMONG TOP", COLUMN_TEXT, COLUMN_SPARE}, [MEDIAN] = {"", "MEDIAN", COLUMN_DURATION, 0},
	[NEWEST] = {"", "NEWEST", COLUMN_DURATION, 0},		 [NAME_CHANGE] = {"", "CHANGE", COLUMN_TEXT, 0},
};

static const struct column series_columns[] = {
	{"", "JOB", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_ELASTIC},
	{"", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},
	{"", "USER", COLUMN_TEXT, COLUMN_SPARE},
	{"", "RANK", COLUMN_NUMBER, COLUMN_OPTIONAL},
	{"", "PID", COLUMN_NUMBER, COLUMN_OPTIONAL},
	{"", "SNAPSHOTS", COLUMN_COUNT, 0},
	{"", "STEP TIME", COLUMN_TEXT, 0},
	{"", "MEDIAN", COLUMN_DURATION, 0},
	{"", "NEWEST", COLUMN_DURATION, 0},
	{"", "CHANGE", COLUMN_TEXT, 0},
	{"", "DEVICE BUSY", COLUMN_PERCENT, COLUMN_OPTIONAL},
};

/* Sets a cell to a change, such as "+50.1%", or "4.0x" where it has doubled; a word behind it says that it is beyond the spread. */
static void set_change(struct table *table, size_t column, double value, double median, const char *word)
{
	char text[64];
	double change;

	if (value < 0 || median <= 0)
		return;
	change = (value / median - 1) * 100;
	/* No "-0.0%". */
	if (fabs(change) < 0.05)
		change = 0;
	if (change >= 100)
		snprintf(text, sizeof text, "%.1fx%s%s", value / median, word ? ", " : "", word ? word : "");
	else
		snprintf(text, sizeof text, "%+.1f%%%s%s", change, word ? ", " : "", word ? word : "");
	table_set_text(table, column, text);
}

static bool is_slower(const struct series *series)
{
	return series->since && series->step_since > series->step_before;
}

/* What is said of the steps of a snapshot: it is one of those that are beyond the spread. */
static const char *word_of(const struct series *series, size_t snapshot)
{
	if (!series->since || snapshot < series->since)
		return NULL;
	return is_slower(series) ? "slower" : "faster";
}

static bool is_simulated(const struct series *series)
{
	for (size_t i = 0; i < series->count; i++)
		if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(series->list[i].capture, "simulated")))
			return true;
	return false;
}

static char *trend(const struct series *series, bool busy)
{
	double *values = need(calloc(series->count, sizeof *values));
	char *line;

	for (size_t i = 0; i < series->count; i++)
		values[i] = busy ? series->list[i].busy : series->list[i].step;
	line = series_sparkline(values, series->count, series_unicode());
	free(values);
	return line;
}

/* "2026-11-21 14:03" of an RFC 3339 text; "" of none. */
static void minute_of(const cJSON *capture, size_t characters, char to[24])
{
	const char *at = json_text(capture, "started_at");

	snprintf(to, 24, "%.*s", (int)characters, at ? at : "");
	if (strlen(to) > 10 && to[10] == 'T')
		to[10] = ' ';
}

static void print_heading(const struct screen *screen, const struct series *series, const char *label)
{
	char first[24], last[24], pid[32] = "", rank[32] = "";
	char *name = text_safe(series->who.name), *job = text_safe(series->who.job), *safe = text_safe(label);

	minute_of(series->list[0].capture, 16, first);
	minute_of(series->list[series->count - 1].capture, 16, last);
	/* Of one day the day is said once. */
	if (strlen(last) > 11 && strncmp(first, last, 11) == 0)
		memmove(last, last + 11, strlen(last + 11) + 1);
	if (series->who.pid)
		snprintf(pid, sizeof pid, "%spid %lld", *job || series->who.rank >= 0 ? ", " : "",
			 (long long)series->who.pid);
	if (series->who.rank >= 0)
		snprintf(rank, sizeof rank, "%srank %lld", *job ? ", " : "", (long long)series->who.rank);
	printf("%s%s%s%s%s%s%s%s%s: %zu %s%s%s%s, %s to %s (UTC)\n\n", screen_bold(screen), name,
	       *job || *rank || *pid ? " (" : "", *job ? "job " : "", job, rank, pid, *job || *rank || *pid ? ")" : "",
	       screen_plain(screen), series->count, label ? "snapshot" : "capture", series->count == 1 ? "" : "s",
	       label && strcmp(label, HISTORY_LABEL) != 0 ? " labelled " : "",
	       label && strcmp(label, HISTORY_LABEL) != 0 ? safe : "", first, last);
	free(name);
	free(job);
	free(safe);
}

/* "             slower since capture 23: 62.31 ms, 41.19 ms before (+51.3 %, p = 0.0003)" */
static void print_change(const struct series *series)
{
	char before[TEXT_FIGURE_BYTES], since[TEXT_FIGURE_BYTES];
	const char *id;

	if (isnan(series->since_p)) {
		printf("             too few to tell a change from the spread: %d with a step time are wanted\n",
		       SHIFT_SERIES);
		return;
	}
	if (!series->since) {
		printf("             no change beyond the spread between them (p = %.2g)\n", series->since_p);
		return;
	}
	id = json_text(series->list[series->since].capture, "capture_id");
	printf("             %s since capture %s: %s, %s before (p = %.2g)\n", is_slower(series) ? "slower" : "faster",
	       id ? id : "?", text_duration(since, (int64_t)series->step_since),
	       text_duration(before, (int64_t)series->step_before), series->since_p);
}

static void print_trends(const struct series *series)
{
	const struct snapshot *newest = &series->list[series->count - 1];
	char median[TEXT_FIGURE_BYTES], now[TEXT_FIGURE_BYTES];
	char *line = trend(series, false);

	if (series->step_median < 0)
		puts("step time    not known");
	else
		printf("step time    %s  median %s, newest %s\n", line,
		       text_duration(median, (int64_t)series->step_median),
		       newest->step < 0 ? "not known" : text_duration(now, (int64_t)newest->step));
	free(line);
	print_change(series);
	if (series->busy_median < 0) {
		puts("device busy  not recorded");
		return;
	}
	line = trend(series, true);
	snprintf(now, sizeof now, "%.1f%%", newest->busy);
	printf("device busy  %s  median %.1f%%, newest %s%s\n", line, series->busy_median,
	       newest->busy < 0 ? "not recorded" : now, is_simulated(series) ? " (simulated GPU)" : "");
	free(line);
}

static void print_snapshots(const struct series *series, const struct screen *screen)
{
	struct table *table = table_new(snapshot_columns, COLUMNS);

	for (size_t i = 0; i < series->count; i++) {
		const struct snapshot *one = &series->list[i];
		const char *status = json_text(one->capture, "status");
		char started[24];

		table_add(table);
		minute_of(one->capture, 16, started);
		table_set_member(table, CAPTURE, one->capture, "capture_id");
		table_set_text(table, STARTED, started);
		table_set_member(table, STEPS, one->capture, "steps_recorded");
		if (one->step >= 0)
			table_set(table, STEP, (int64_t)one->step);
		if (one->idle > 0)
			table_set(table, IDLE, (int64_t)one->idle);
		/* What is beyond the spread is shown against what was before it. */
		set_change(table, CHANGE, one->step,
			   series->since && i >= series->since ? series->step_before : series->step_median,
			   word_of(series, i));
		if (is_slower(series) && i >= series->since)
			table_mark(table);
		if (one->busy >= 0)
			table_set_real(table, BUSY, one->busy);
		else if (series->busy_median >= 0)
			table_set_absent(table, BUSY);
		names_set_top(table, OPERATOR, one, names_operators(one));
		names_set_top(table, KERNEL, one, &names_by_kernel);
		if (status && strcmp(status, "complete") != 0)
			table_set_text(table, STATUS, status);
	}
	putchar('\n');
	table_print(table, screen, 0);
	table_free(table);
}

/* Has a name moved with the steps? Values are -1 where it is not among the top: then it cannot be told. */
static enum compare_change change_since(const struct series *series, const double *values)
{
	double p, before = 0, since = 0;

	if (!series->since)
		return CHANGE_NONE;
	for (size_t i = 0; i < series->count; i++) {
		if (values[i] < 0)
			return CHANGE_NONE;
		*(i < series->since ? &before : &since) += values[i];
	}
	shift_test(values, 1, series->since, series->count - series->since, 0, SHIFT_EITHER, &p);
	if (!(p <= SHIFT_LEVEL))
		return CHANGE_NONE;
	before /= (double)series->since;
	since /= (double)(series->count - series->since);
	return since > before ? CHANGE_MORE : CHANGE_LESS;
}

/* Returns whether there was anything to print. */
static bool print_names(const struct series *series, const struct name_list *list, const struct screen *screen)
{
	double *values = need(calloc(series->count, sizeof *values));
	struct table *table = table_new(name_columns, NAME_COLUMNS);
	bool of_device = list == &names_by_kernel || list == &names_by_device;
	size_t count;
	struct named *names = names_all(series, list, values, &count);

	for (size_t n = 0; n < count && n < NAMES_SHOWN; n++) {
		size_t listed;
		double sum, median = names_times(series, list, names[n].name, values, &sum, &listed);
		double newest = values[series->count - 1];
		char *line = series_sparkline(values, series->count, series_unicode()), text[48];

		table_add(table);
		table_set_text(table, NAME, names[n].name);
		table_set_text(table, TREND, line);
		snprintf(text, sizeof text, "%zu of %zu", listed, series->count);
		table_set_text(table, LISTED, text);
		table_set(table, MEDIAN, (int64_t)median);
		if (newest >= 0)
			table_set(table, NEWEST, (int64_t)newest);
		enum compare_change change = change_since(series, values);
		set_change(table, NAME_CHANGE, newest, median, compare_change_word(change));
		if (change == CHANGE_MORE)
			table_mark(table);
		free(line);
	}
	if (count) {
		printf("\n%s%s%s%s\n", screen_bold(screen), list->title,
		       of_device && is_simulated(series) ? " (simulated GPU)" : "", screen_plain(screen));
		table_set_whole(table, count);
		table_print(table, screen, 0);
	}
	table_free(table);
	free(names);
	free(values);
	return count > 0;
}

static void print_one(const struct series *series, const char *label)
{
	struct screen screen = screen_output();
	bool gpu = names_recorded_once(series, &names_by_kernel);

	print_heading(&screen, series, label);
	print_trends(series);
	print_snapshots(series, &screen);
	if (!print_names(series, gpu ? &names_by_device : &names_by_cpu, &screen)) {
		if (!names_recorded_once(series, &names_by_cpu))
			puts("\noperators: not recorded");
		print_names(series, &names_by_range, &screen);
	}
	if (gpu)
		print_names(series, &names_by_kernel, &screen);
	else
		puts("\nkernels: not recorded");
}

static void print_overview(const struct series *series, size_t count)
{
	struct screen screen = screen_output();
	struct table *table = table_new(COUNTED(series_columns));
	bool any_busy = false;

	for (size_t s = 0; s < count; s++)
		any_busy = any_busy || series[s].list[series[s].count - 1].busy >= 0;
	for (size_t s = 0; s < count; s++) {
		const struct snapshot *newest = &series[s].list[series[s].count - 1];
		char *line = trend(&series[s], false);

		table_add(table);
		table_set_text(table, 0, *series[s].who.job ? series[s].who.job : NULL);
		table_set_text(table, 1, series[s].who.name);
		table_set_member(table, 2, newest->capture, "user");
		if (series[s].who.rank >= 0)
			table_set(table, 3, series[s].who.rank);
		if (series[s].who.pid)
			table_set(table, 4, series[s].who.pid);
		table_set(table, 5, (int64_t)series[s].count);
		table_set_text(table, 6, line);
		if (series[s].step_median >= 0)
			table_set(table, 7, (int64_t)series[s].step_median);
		if (newest->step >= 0)
			table_set(table, 8, (int64_t)newest->step);
		set_change(table, 9, newest->step, series[s].since ? series[s].step_before : series[s].step_median,
			   word_of(&series[s], series[s].count - 1));
		if (is_slower(&series[s]))
			table_mark(table);
		if (newest->busy >= 0)
			table_set_real(table, 10, newest->busy);
		else if (any_busy)
			table_set_absent(table, 10);
		free(line);
	}
	table_print(table, &screen, 0);
	if (!any_busy)
		puts("\ndevice busy: not recorded");
	table_free(table);
}

void history_print(const struct series *series, size_t count, const char *label, enum output_format format)
{
	if (format == FORMAT_JSON)
		history_print_json(series, count, label);
	else if (format == FORMAT_CSV)
		history_print_csv(series, count);
	else if (count == 1)
		print_one(&series[0], label);
	else if (count > 1)
		print_overview(series, count);
}
