/* answer_breakdown.c - see answer_breakdown.h. */
#include "answer_breakdown.h"

#include "client/report/verdict.h"
#include "client/ui/failure.h"
#include "client/ui/print.h"
#include "client/ui/text.h"

#include "store/findings/json.h"

#include <stdlib.h>
#include <string.h>

/* Rows of less than this share, in percent, are added up in one line. */
#define SMALL 0.5
/* A row is told with its spread between the steps where that is larger, in percent of a step. */
#define SPREAD 3.0
/* Devices that have rows; more have a line. */
#define DEVICES 2
#define WIDEST_TITLE 38
/* Columns in front of the figures; those of the heading's begin so many earlier. */
#define FIGURES (12 + WIDEST_TITLE)
#define SUM 6
/* Cells of a bar that stands for a whole step, and where there is little room. */
#define BAR SCREEN_BAR_MAX
#define BAR_NARROW 10
/* Columns in front of the bar; with it and the spread behind it. */
#define BEFORE (FIGURES + 1 + 9 + 6 + 2)
#define WITH_SPREAD (BEFORE + BAR + 14)
/* In front of the line, which stands behind all of it. */
#define WITH_PLACE (WITH_SPREAD + 1)

struct row {
	const char *side, *word, *parent, *title;
	const char *place; /* "train.py:46 68%"; NULL: not known */
	double step, percent, least, most;
	bool on_device;
};

struct printed {
	struct tables *tables;
	const char *side; /* of the row before */
	double rest;	  /* ns of rows that are too small */
	double rest_percent;
	unsigned rests;
	struct row small; /* the last of them */
	bool inner;	  /* they are parts of a row */
	size_t devices;
};

static double figure(const struct table *table, size_t row, const char *key)
{
	double value = 0;

	return table_figure(table, row, table_find(table, key), &value) ? value : 0;
}

static const char *word(const struct table *table, size_t row, const char *key)
{
	const char *text = table_text(table, row, table_find(table, key));

	return text;
}

static struct row row_of(const struct table *table, size_t r)
{
	struct row row = {
		.side = word(table, r, "side"), .word = word(table, r, "row"), .parent = word(table, r, "parent")};
	double device;

	/* The only column without a key that is a title stands behind the parent. */
	row.title = table_text(table, r, table_find(table, "parent") + 1);
	row.title = row.title ? row.title + strspn(row.title, " ") : row.word;
	/* And this one behind the share. */
	row.place = table_text(table, r, table_find(table, "percent") + 1);
	row.step = figure(table, r, "step_ns");
	row.percent = figure(table, r, "percent");
	row.least = figure(table, r, "min_percent");
	row.most = figure(table, r, "max_percent");
	row.on_device = table_figure(table, r, table_find(table, "device"), &device);
	return row;
}

/* What the time was: of use, lost, or besides. */
static const char *colour(const struct screen *screen, const struct row *row)
{
	if (strcmp(row->word, "compute") == 0)
		return screen_good(screen);
	if (row->parent || strcmp(row->word, "idle") == 0 || strcmp(row->word, "input") == 0 ||
	    strcmp(row->word, "sync") == 0)
		return screen_bad(screen);
	return row->on_device ? screen_other(screen) : screen_good(screen);
}

static void print_side(struct printed *printed, const struct row *row)
{
	bool same = printed->side && strcmp(printed->side, row->side) == 0;

	printf("  %-9s ", same ? "" : row->side);
	printed->side = row->side;
}

/* The line of the user's own at which most of it was, behind `at` columns; where there is less room, without its share, or not at all. */
static void print_place(const struct screen *screen, const char *place, int at)
{
	size_t room = screen->width ? screen->width - WITH_PLACE : SIZE_MAX, width = text_width(place);
	const char *share = strrchr(place, ' ');
	int bytes = (int)strlen(place);
	if (screen->width && screen->width < WITH_PLACE)
		return;
	if (width > room && share) {
		width -= text_width(share);
		bytes = (int)(share - place);
	}
	if (width <= room)
		printf("%*s%s%.*s%s", WITH_PLACE - at, "", screen_dim(screen), bytes, place, screen_plain(screen));
}

static void print_line(struct printed *printed, const struct row *row)
{
	const struct screen *screen = &printed->tables->screen;
	char bar[SCREEN_BAR_BYTES], duration[TEXT_FIGURE_BYTES], title[WIDEST_TITLE + 8];
	unsigned cells;
	size_t width;

	print_side(printed, row);
	snprintf(title, sizeof title, "%s%.*s", row->parent ? "  " : "", WIDEST_TITLE, row->title);
	width = text_width(title);
	printf("%s%*s %9s %3.0f %%", title, (int)(width < WIDEST_TITLE ? WIDEST_TITLE - width : 0), "",
	       text_duration(duration, (int64_t)row->step), row->percent);
	cells = screen_bar(screen, bar, row->percent, screen->width && screen->width < BEFORE + BAR ? BAR_NARROW : BAR);
	if (cells)
		printf("  %s%s%s", colour(screen, row), bar, screen_plain(screen));
	int at = BEFORE - 2 + (cells ? 2 + (int)cells : 0);
	if (row->most - row->least >= SPREAD && (!screen->width || screen->width >= WITH_SPREAD)) {
		char spread[32];
		snprintf(spread, sizeof spread, "%.0f to %.0f %%", row->least, row->most);
		printf("%*s%s%s%s", BEFORE + BAR + 2 - at, "", screen_dim(screen), spread, screen_plain(screen));
		at = BEFORE + BAR + 2 + (int)strlen(spread);
	}
	if (row->place)
		print_place(screen, row->place, at);
	putchar('\n');
}

/* The line of what was too small for one of its own. */
static void print_rest(struct printed *printed, const char *side)
{
	char title[40];
	struct row row = {.side = side, .word = "", .title = title, .step = printed->rest};

	if (printed->rests == 1) {
		print_line(printed, &printed->small);
	} else if (printed->rests) {
		snprintf(title, sizeof title, "%u more rows", printed->rests);
		row.parent = printed->inner ? "" : NULL;
		row.percent = printed->rest_percent;
		print_line(printed, &row);
	}
	printed->rests = 0;
	printed->rest = 0;
	printed->rest_percent = 0;
}

/* Is it a device beyond those that have rows? Counts them. */
static bool too_many(struct printed *printed, const struct row *row)
{
	bool new = !printed->side || strcmp(printed->side, row->side) != 0;

	if (row->on_device && new)
		printed->devices++;
	return row->on_device && printed->devices > DEVICES;
}

static void print_rows(struct printed *printed, const struct table *table)
{
	const char *side = NULL;

	for (size_t r = 0; r < table_rows(table); r++) {
		struct row row = row_of(table, r);

		if (!row.side || !row.word || !row.title)
			continue;
		/* What idle consists of stands directly below it. */
		if (side && (strcmp(side, row.side) != 0 || printed->inner != (row.parent != NULL) ||
			     (row.on_device && strcmp(row.word, "idle") == 0)))
			print_rest(printed, side);
		if (too_many(printed, &row)) {
			side = printed->side = row.side;
			continue;
		}
		printed->inner = row.parent;
		if (row.percent < SMALL && strcmp(row.word, "compute") != 0) {
			printed->rests++;
			printed->small = row;
			printed->rest += row.step;
			printed->rest_percent += row.percent;
		} else {
			print_line(printed, &row);
		}
		side = row.side;
	}
	if (side)
		print_rest(printed, side);
	if (printed->devices > DEVICES)
		printf("  and %zu more devices: --by breakdown\n", printed->devices - DEVICES);
}

/* What the rows of one side add up to: the mean of the steps, in ns. */
static double sum_of_a_side(const struct table *table)
{
	const char *side = table_rows(table) ? word(table, 0, "side") : NULL;
	double sum = 0;
	for (size_t r = 0; side && r < table_rows(table); r++) {
		struct row row = row_of(table, r);
		if (row.side && strcmp(row.side, side) == 0 && !row.parent)
			sum += row.step;
	}
	return sum;
}

/* The heading ends in what the rows add up to. That is the mean, and not the median that stands above it. */
static void print_heading(const struct tables *tables, const struct view *view, const struct table *table, bool several)
{
	char duration[TEXT_FIGURE_BYTES], title[80], sum[TEXT_FIGURE_BYTES + 8], heading[200];
	snprintf(title, sizeof title, "%s%s", view->heading, tables->simulated ? " (simulated GPU)" : "");
	if (table_rows(table)) {
		snprintf(sum, sizeof sum, "%s%s", several ? "mean " : "",
			 text_duration(duration, (int64_t)sum_of_a_side(table)));
		snprintf(heading, sizeof heading, "%-*s%*s", FIGURES - SUM, title, SUM + 10, sum);
		tables_title(tables, heading);
	} else {
		tables_title(tables, title);
	}
}

void answer_breakdown(struct tables *tables, bool several)
{
	const struct view *view = view_find("breakdown");
	struct table *table = tables_make(tables, view);
	struct printed printed = {.tables = tables};
	char *why, *notes;

	if (!table)
		return;
	print_heading(tables, view, table, several);
	if (table_rows(table)) {
		print_rows(&printed, table);
	} else if (view_recorded(&tables->capture->reader, view)) {
		puts("  no step was recorded");
	} else {
		why = view_absence(&tables->capture->reader, view);
		printf("  %s\n", why);
		free(why);
	}
	if (table_notes(table)) {
		if (asprintf(&notes, "  %s", table_notes(table)) < 0)
			need(NULL);
		print_notes(notes, &tables->screen);
		free(notes);
	}
	table_free(table);
}

void answer_verdict(const struct tables *tables, const char *name)
{
	struct findings findings;
	cJSON *verdict;
	char *text;

	verdict_read(&tables->capture->reader, &tables->options, &findings);
	verdict = need(findings_json(&findings, NULL));
	text = verdict_text(verdict, name, tables->screen.width < 1000 ? (int)tables->screen.width : 0);
	printf("\n%s", text);
	free(text);
	cJSON_Delete(verdict);
}
