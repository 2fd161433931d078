/* answer.c - see answer.h. It is made of the views' tables, so that it cannot say anything else than they do. */
#include "answer.h"
#include "proto/base/array.h"

#include "answer_breakdown.h"

#include "client/report/recorded.h"
#include "client/ui/failure.h"
#include "client/ui/json.h"
#include "client/ui/print.h"
#include "client/ui/text.h"

#include "store/breakdown/breakdown.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the tables that say most. */
#define TABLES 3
#define TABLE_ROWS 5
/* Steps that differ by more than this share of their median are worth a table. */
#define SPREAD 0.1

static struct table *rows_of(struct tables *tables, const char *view)
{
	return tables_make(tables, view_find(view));
}

/* What the devices are called: "A100", "2 x A100"; of those that were busy, where any was. To be freed; NULL: none is known. */
static char *device_names(struct tables *tables)
{
	struct table *table = rows_of(tables, "devices");
	size_t name = table ? table_find(table, "name") : 0, busy = table ? table_find(table, "busy_ns") : 0, count = 0;
	const char *first = NULL;
	char *text = NULL;

	for (int all = 0; table && all < 2 && !count; all++)
		for (size_t r = 0; r < table_rows(table); r++) {
			double ns = 0;
			bool used = table_figure(table, r, busy, &ns) && ns > 0;

			if (!used && !all)
				continue;
			count++;
			if (!first)
				first = table_text(table, r, name);
		}
	if (first && (count > 1 ? asprintf(&text, "%zu x %s", count, first) : asprintf(&text, "%s", first)) < 0)
		need(NULL);
	table_free(table);
	return text;
}

/* "steps 4,012 to 4,014", by the process's own count. */
static void describe_steps(const struct tables *tables, const cJSON *about, char *to, size_t bytes)
{
	const char *source = json_text(about, "step_source");
	double recorded = json_number(about, "steps_recorded", 0), wanted = json_number(about, "steps_wanted", 0);
	char first_text[TEXT_FIGURE_BYTES], last_text[TEXT_FIGURE_BYTES];
	int64_t first, last;
	size_t n = 0;

	if (source && strcmp(source, "duration") == 0) {
		snprintf(to, bytes, "a window of time");
		return;
	}
	report_step_numbers(&tables->capture->reader, &first, &last);
	n = (size_t)snprintf(to, bytes, "%.0f of %.0f steps", recorded, wanted);
	if (first >= 0 && n < bytes && first == last)
		snprintf(to + n, bytes - n, " (%s)", text_count(first_text, first));
	else if (first >= 0 && n < bytes)
		snprintf(to + n, bytes - n, " (%s to %s)", text_count(first_text, first), text_count(last_text, last));
}

static void add(char *to, size_t bytes, const char *before, const char *text)
{
	size_t n = strlen(to);

	if (text && *text && n < bytes)
		snprintf(to + n, bytes - n, "%s%.128s", before, text);
}

void answer_line(const struct tables *tables, const cJSON *about)
{
	struct tables whole = *tables;
	const char *status = json_text(about, "status"), *reason = json_text(about, "reason");
	const char *id = json_text(about, "capture_id"), *name = json_text(about, "name");
	bool complete = status && strcmp(status, "complete") == 0;
	double rank = json_number(about, "rank", -1), world = json_number(about, "world_size", -1);
	size_t width = tables->screen.width ? tables->screen.width : SIZE_MAX;
	char text[1024], pid[TEXT_FIGURE_BYTES], part[96], *devices, *safe;

	/* The devices of all of it, whatever part is shown. */
	whole.filter = (struct filter){NULL, -1, -1, -1, 0};
	devices = device_names(&whole);
	snprintf(text, sizeof text, "%.128s (%s)", name && *name ? name : "a process",
		 text_pid(pid, (int64_t)json_number(about, "pid", 0)));
	if (rank >= 0) {
		snprintf(part, sizeof part, world > 0 ? "%.0f of %.0f" : "%.0f", rank, world);
		add(text, sizeof text, ", rank ", part);
	}
	describe_steps(tables, about, part, sizeof part);
	add(text, sizeof text, ", ", part);
	add(text, sizeof text, ", ", devices);
	add(text, sizeof text, ", torch ", json_text(about, "torch_version"));
	add(text, sizeof text, ", label ", json_text(about, "label"));
	add(text, sizeof text, ", ", tables->simulated ? "SIMULATED GPU" : NULL);
	safe = text_safe(text);
	printf("%scapture %s%s  ", screen_bold(&tables->screen), id ? id : "?", screen_plain(&tables->screen));
	print_wrapped(stdout, safe, 2, width - 2, strlen("capture ") + strlen(id ? id : "?"));
	putchar('\n');
	free(safe);
	free(devices);
	if (complete)
		return;
	snprintf(text, sizeof text, "%s%s%s", status ? status : "of an unknown state", reason && *reason ? ": " : "",
		 reason ? reason : "");
	safe = text_safe(text);
	fputs(screen_warn(&tables->screen), stdout);
	print_wrapped(stdout, safe, 0, width, 0);
	printf("%s\n", screen_plain(&tables->screen));
	free(safe);
}

static int by_size(const void *a, const void *b)
{
	const double *one = a, *other = b;

	return ORDER(*one, *other);
}

struct pace {
	double median, least, most;
	size_t steps;
	int64_t slowest; /* its ordinal */
};

static unsigned holds(const struct table *table, size_t row)
{
	double ns;
	unsigned found = 0;

	if (table_figure(table, row, table_find(table, "evaluation_ns"), &ns) && ns > 0)
		found |= HOLDS_EVALUATION;
	if (table_figure(table, row, table_find(table, "compile_ns"), &ns) && ns > 0)
		found |= HOLDS_COMPILATION;
	return found;
}

/* The median is of the steps that hold no evaluation and no compilation, where there are any. */
static struct pace pace_of(struct tables *tables)
{
	struct table *table = rows_of(tables, "steps");
	struct pace pace = {0};
	size_t rows = table ? table_rows(table) : 0, usual = 0;
	struct breakdown_holders holders = {0};
	unsigned unusual;
	double *walls = need(calloc(rows + 1, sizeof *walls)), *without = need(calloc(rows + 1, sizeof *without));

	for (size_t r = 0; r < rows; r++)
		breakdown_count(&holders, holds(table, r));
	unusual = breakdown_unusual(&holders);
	for (size_t r = 0; r < rows; r++) {
		double step;

		if (!table_figure(table, r, table_find(table, "wall_ns"), &walls[pace.steps]))
			continue;
		if (walls[pace.steps] > pace.most && table_figure(table, r, table_find(table, "step"), &step)) {
			pace.slowest = (int64_t)step;
			pace.most = walls[pace.steps];
		}
		if (!(holds(table, r) & unusual))
			without[usual++] = walls[pace.steps];
		pace.steps++;
	}
	if (pace.steps) {
		const double *of = usual ? without : walls;
		size_t count = usual ? usual : pace.steps;

		qsort(walls, pace.steps, sizeof *walls, by_size);
		qsort(without, usual, sizeof *without, by_size);
		pace.least = walls[0];
		pace.median = (of[(count - 1) / 2] + of[count / 2]) / 2;
	}
	free(without);
	free(walls);
	table_free(table);
	return pace;
}

/* "device busy 51 %", or why that is not known. */
static void describe_busy(struct tables *tables, char *to, size_t bytes)
{
	struct table *table = rows_of(tables, "totals");
	double percent;

	to[0] = '\0';
	if (table && table_rows(table) && table_figure(table, 0, table_find(table, "device_busy_percent"), &percent))
		snprintf(to, bytes, ", device busy %.0f %%", percent);
	else if (!view_recorded(&tables->capture->reader, view_find("kernels")))
		snprintf(to, bytes, ", device not recorded");
	table_free(table);
}

static void print_pace(struct tables *tables, const struct pace *pace, const cJSON *about)
{
	const char *source = json_text(about, "step_source");
	char median[TEXT_FIGURE_BYTES], least[TEXT_FIGURE_BYTES], most[TEXT_FIGURE_BYTES], busy[48];

	describe_busy(tables, busy, sizeof busy);
	text_duration(median, (int64_t)pace->median);
	if (!pace->steps)
		printf("no step was recorded%s\n", busy);
	else if (source && strcmp(source, "duration") == 0)
		printf("a window of %s%s\n", median, busy);
	else if (pace->steps == 1)
		printf("%s the step%s\n", median, busy);
	else
		printf("%s a step (median; %s to %s)%s\n", median, text_duration(least, (int64_t)pace->least),
		       text_duration(most, (int64_t)pace->most), busy);
}

/* --- tables --- */

static bool has_part(const struct tables *tables, const char *view)
{
	return !tables_left_out(tables, view_find(view));
}

static bool has_rows(struct tables *tables, const char *view)
{
	struct table *table = rows_of(tables, view);
	bool any = table && table_rows(table);

	table_free(table);
	return any;
}

enum worth { WITH_ROWS, STEPS_DIFFER, STEPS_ALIKE, ANYHOW };

/* The best first: steps stand higher where they differ. */
static const struct {
	const char *view;
	enum worth worth;
} candidates[] = {
	{"kernels", WITH_ROWS}, {"operators", WITH_ROWS}, {"steps", STEPS_DIFFER}, {"ranges", WITH_ROWS},
	{"copies", WITH_ROWS},	{"steps", STEPS_ALIKE},	  {"threads", ANYHOW},
};

static bool is_worth(struct tables *tables, const struct pace *pace, const char *view, enum worth worth)
{
	bool differ = pace->most - pace->least > SPREAD * pace->median;

	switch (worth) {
	case WITH_ROWS:
		return has_rows(tables, view);
	case STEPS_DIFFER:
		return pace->steps > 1 && differ;
	case STEPS_ALIKE:
		return pace->steps > 1 && !differ;
	case ANYHOW:
		break;
	}
	return true;
}

/* The tables that say most, the best first. Returns how many. */
static size_t choose_tables(struct tables *tables, const struct pace *pace, const char *chosen[TABLES])
{
	size_t count = 0;

	for (size_t i = 0; i < sizeof candidates / sizeof *candidates && count < TABLES; i++) {
		const char *view = candidates[i].view;

		if (has_part(tables, view) && is_worth(tables, pace, view, candidates[i].worth))
			chosen[count++] = view;
	}
	return count;
}

/* What nothing can be said of, and why: one line each. */
static void print_absences(struct tables *tables)
{
	static const char *const views[] = {"operators", "ranges", "kernels", "copies", "memsets"};
	bool device = view_recorded(&tables->capture->reader, view_find("kernels"));
	size_t width = tables->screen.width ? tables->screen.width : SIZE_MAX;
	bool any = false;

	for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
		const struct view *view = view_find(views[i]);
		char *why, *text;

		/* That there is nothing of the device is said once. */
		if (view_recorded(&tables->capture->reader, view) || (view->activities && !device))
			continue;
		why = view_absence(&tables->capture->reader, view);
		if (asprintf(&text, "%s: %s", view->name, why) < 0)
			need(NULL);
		printf("%s", any ? "" : "\n");
		print_wrapped(stdout, text, 2, width - 2, 0);
		putchar('\n');
		any = true;
		free(text);
		free(why);
	}
}

/* Events that are missing, or not whole, qualify all else. */
static void print_dropped(struct tables *tables)
{
	const struct view *view = view_find("dropped");
	struct table *table = tables_make(tables, view);

	if (table && table_rows(table)) {
		tables_title(tables, view->heading);
		table_print(table, &tables->screen, 0);
	}
	table_free(table);
}

static void print_cost(struct tables *tables, const cJSON *about)
{
	static const char *const keys[] = {"step_before_ns", "step_during_ns", "step_after_ns"}, *const words[] = {
													 "before",
													 "during",
													 "after"};
	struct table *table = rows_of(tables, "cost");
	double events = json_number(about, "events", -1), lost = json_number(about, "lost", -1), ns;
	char text[256] = "", figure[TEXT_FIGURE_BYTES], part[64];

	for (size_t i = 0; table && table_rows(table) && i < sizeof keys / sizeof *keys; i++)
		if (table_figure(table, 0, table_find(table, keys[i]), &ns)) {
			snprintf(part, sizeof part, "%s %s", text_duration(figure, (int64_t)ns), words[i]);
			add(text, sizeof text, *text ? ", " : "a step took ", part);
		}
	if (events >= 0) {
		snprintf(part, sizeof part, "%s events", text_count(figure, (int64_t)events));
		add(text, sizeof text, *text ? "; " : "", part);
	}
	if (lost >= 0) {
		snprintf(part, sizeof part, "%s dropped", lost > 0 ? text_count(figure, (int64_t)lost) : "none");
		add(text, sizeof text, *text ? ", " : "", part);
	}
	if (*text)
		printf("\nthe recording: %s\n", text);
	table_free(table);
}

void answer_next(const struct screen *screen, const char *command, const char *text)
{
	size_t width = screen->width ? screen->width : SIZE_MAX;
	bool beside = 2 + strlen(command) + 2 + strlen(text) <= width && 40 + strlen(text) <= width;

	if (beside)
		printf("  %-36s  %s\n", command, text);
	else
		printf("  %s\n      %s\n", command, text);
}

/* Tables that were asked for with an option, and are not on this screen. */
static void next_of_options(const struct tables *tables, const char *id)
{
	static const struct {
		unsigned fills;
		const char *view, *what;
	} asked[] = {
		{FILLS_STACKS, "lines", "your lines"},
		{FILLS_MODULES, "modules", "modules"},
		{FILLS_ALLOCATIONS, "peak", "who held memory at the peak"},
	};
	char command[512];

	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		if (!report_filled(&tables->capture->reader, asked[i].fills))
			continue;
		snprintf(command, sizeof command, "profd show %.400s --by %s", id, asked[i].view);
		answer_next(&tables->screen, command, asked[i].what);
	}
}

static void print_next(const struct tables *tables, const cJSON *about, const struct pace *pace)
{
	const char *id = json_text(about, "capture_id");
	char command[512];

	id = tables->which ? tables->which : id;
	puts("\nnext:");
	snprintf(command, sizeof command, "profd show %.400s --by all", id ? id : "");
	answer_next(&tables->screen, command, "every table; one alone: --by kernels, operators, steps, ...");
	if (pace->steps > 1 && !tables->options.step) {
		snprintf(command, sizeof command, "profd show %.400s --step %lld", id ? id : "",
			 (long long)pace->slowest);
		answer_next(&tables->screen, command, "the slowest step alone");
	}
	if (report_ran(&tables->capture->reader, "shapes")) {
		snprintf(command, sizeof command, "profd show %.400s --group-by-shapes --by all", id ? id : "");
		answer_next(&tables->screen, command, "operators of different input shapes apart");
	}
	next_of_options(tables, id ? id : "");
	snprintf(command, sizeof command, "profd export %.400s", id ? id : "");
	answer_next(&tables->screen, command, "a trace for ui.perfetto.dev or chrome://tracing");
}

bool answer_has(const struct view *view)
{
	static const char *const parts[] = {"totals", "findings", "breakdown"};
	bool found = false;

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		found |= strcmp(parts[i], view->name) == 0;
	for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++)
		found |= strcmp(candidates[i].view, view->name) == 0;
	return found;
}

void answer_print(struct tables *tables, const cJSON *about)
{
	struct pace pace = has_part(tables, "steps") ? pace_of(tables) : (struct pace){0};
	const char *chosen[TABLES];
	size_t count;

	if (has_part(tables, "steps") && has_part(tables, "totals"))
		print_pace(tables, &pace, about);
	if (has_part(tables, "breakdown"))
		answer_breakdown(tables, pace.steps > 1);
	if (has_part(tables, "findings"))
		answer_verdict(tables, tables->which ? tables->which : json_text(about, "capture_id"));
	/* All of them are in the line above, and in the table of steps. */
	tables->options.first_screen = true;
	count = choose_tables(tables, &pace, chosen);
	for (size_t i = 0; i < count && tables->code == EXIT_DONE; i++)
		tables_print(tables, view_find(chosen[i]), TABLE_ROWS);
	if (tables->code != EXIT_DONE)
		return;
	print_absences(tables);
	print_dropped(tables);
	print_cost(tables, about);
	print_next(tables, about, &pace);
}
