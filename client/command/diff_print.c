/* diff_print.c - see diff_print.h. */
#include "diff_print.h"

#include "client/compare/setup.h"
#include "client/ui/json.h"
#include "client/ui/print.h"
#include "client/ui/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The answer names as many rows as explain this part of the difference, but no more than MOVERS. */
#define EXPLAINED 0.8
#define MOVERS 3
/* A row that is a smaller part of the difference is not named. */
#define WORTH 0.1
/* Columns before what is said of a side. */
#define INDENT 5u

enum {
	D_SIDE,
	D_NAME,
	D_ROW,
	D_PARENT,
	D_TITLE,
	D_A,
	D_B,
	D_MORE,
	D_PERCENT,
	D_CALLS_A,
	D_CALLS_B,
	D_CHANGE,
	D_P,
	D_PLAIN,
	D_COUNT
};

static const struct column name_columns[] = {
	[D_SIDE] = {"", "", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_TABLE_ONLY},
	[D_NAME] = {"name", "NAME", COLUMN_TEXT, COLUMN_NAME},
	[D_ROW] = {"", "", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_TABLE_ONLY},
	[D_PARENT] = {"", "", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_TABLE_ONLY},
	[D_TITLE] = {"", "", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_TABLE_ONLY},
	[D_A] = {"a_ns", "A", COLUMN_DURATION, 0},
	[D_B] = {"b_ns", "B", COLUMN_DURATION, 0},
	[D_MORE] = {"difference_ns", "DIFFERENCE", COLUMN_MORE, 0},
	[D_PERCENT] = {"percent", "OF A STEP", COLUMN_MORE_PERCENT, COLUMN_SPARE},
	[D_CALLS_A] = {"a_calls", "CALLS A", COLUMN_COUNT, COLUMN_OPTIONAL | COLUMN_SPARE},
	[D_CALLS_B] = {"b_calls", "CALLS B", COLUMN_COUNT, COLUMN_OPTIONAL | COLUMN_SPARE},
	[D_CHANGE] = {"change", "CHANGE", COLUMN_TEXT, 0},
	[D_P] = {"p", "", COLUMN_RATE, COLUMN_DATA_ONLY},
	[D_PLAIN] = {"joined", "", COLUMN_FLAG, COLUMN_DATA_ONLY},
};

static const struct column breakdown_columns[] = {
	[D_SIDE] = {"side", "SIDE", COLUMN_TEXT, 0},
	[D_NAME] = {"device", "", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	[D_ROW] = {"row", "", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[D_PARENT] = {"parent", "", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[D_TITLE] = {"", "WHAT", COLUMN_TEXT, COLUMN_TABLE_ONLY | COLUMN_ELASTIC},
	[D_A] = {"a_ns", "A", COLUMN_DURATION, 0},
	[D_B] = {"b_ns", "B", COLUMN_DURATION, 0},
	[D_MORE] = {"difference_ns", "DIFFERENCE", COLUMN_MORE, 0},
	[D_PERCENT] = {"percent", "OF A STEP", COLUMN_MORE_PERCENT, COLUMN_SPARE},
	[D_CALLS_A] = {"", "", COLUMN_COUNT, COLUMN_OPTIONAL | COLUMN_TABLE_ONLY},
	[D_CALLS_B] = {"", "", COLUMN_COUNT, COLUMN_OPTIONAL | COLUMN_TABLE_ONLY},
	[D_CHANGE] = {"change", "CHANGE", COLUMN_TEXT, 0},
	[D_P] = {"p", "", COLUMN_RATE, COLUMN_DATA_ONLY},
	[D_PLAIN] = {"", "", COLUMN_FLAG, COLUMN_OPTIONAL | COLUMN_TABLE_ONLY},
};

/* --- the answer --- */

static int64_t more_of(const struct compare_row *row)
{
	return row->b.mean - row->a.mean;
}

/* Rows that explain a step's difference: those of the device, with the causes of its idle time, where they are known; else those of
 * the step thread. Where steps were tested, such as have moved. */
static bool explains(const struct diff *diff, const struct compare_row *row)
{
	const struct compare_table *table = &diff->breakdown;
	if (!isnan(diff->wall_p) && row->change == CHANGE_NONE)
		return false;
	if (!table->groups || table->doubt[0])
		return row->group < 0;
	return row->group == 0 && (row->parent || strcmp(row->word, "idle") != 0);
}

static const struct compare_row *largest_below(const struct diff *diff, bool more, int64_t below)
{
	const struct compare_row *largest = NULL;
	for (size_t i = 0; i < diff->breakdown.count; i++) {
		const struct compare_row *row = &diff->breakdown.rows[i];
		int64_t size = more ? more_of(row) : -more_of(row);
		if (explains(diff, row) && size > 0 && size < below && (!largest || size > llabs(more_of(largest))))
			largest = row;
	}
	return largest;
}

/* ": waiting for input +11.8 ms, compute +0.3 ms" */
static void add_movers(const struct diff *diff, char *to, size_t bytes)
{
	double all = diff->wall_b - diff->wall_a, explained = 0;
	int64_t below = INT64_MAX;
	size_t n = 0;
	*to = '\0';
	for (int i = 0; i < MOVERS && fabs(explained) < EXPLAINED * fabs(all); i++) {
		const struct compare_row *row = largest_below(diff, all > 0, below);
		char figure[TEXT_FIGURE_BYTES];
		if (!row || fabs((double)more_of(row)) < WORTH * fabs(all))
			break;
		below = llabs(more_of(row));
		explained += (double)more_of(row);
		n += (size_t)snprintf(to + n, bytes - n, "%s%s %s%s", i ? ", " : ": ", row->name, all > 0 ? "+" : "",
				      text_duration(figure, more_of(row)));
		if (n >= bytes)
			break;
	}
	if (!n && !isnan(diff->wall_p))
		snprintf(to, bytes, "; none of its rows has moved beyond the spread of the steps by itself");
}

char *diff_answer(const struct diff *diff)
{
	double all = diff->wall_b - diff->wall_a, percent = diff->wall_a > 0 ? all * 100 / diff->wall_a : 0;
	char figure[TEXT_FIGURE_BYTES], of_a[TEXT_FIGURE_BYTES], of_b[TEXT_FIGURE_BYTES], movers[512], *answer = NULL;
	int n;
	add_movers(diff, movers, sizeof movers);
	text_duration(figure, llround(fabs(all)));
	text_duration(of_a, llround(diff->wall_a));
	text_duration(of_b, llround(diff->wall_b));
	if (llround(all) == 0)
		n = asprintf(&answer, "a step takes the same time, %s", of_a);
	else if (isnan(diff->wall_p))
		n = asprintf(
			&answer,
			"a step takes %s %s (%+.1f %%)%s; too few steps to tell whether steps differ by that anyway",
			figure, all > 0 ? "more" : "less", percent, movers);
	else if (diff->wall_p > SHIFT_LEVEL)
		n = asprintf(
			&answer,
			"a step takes as long in both, within the spread of the steps: %s and %s (%+.1f %%, p = %.2g)",
			of_a, of_b, percent, diff->wall_p);
	else
		n = asprintf(&answer, "a step takes %s %s (%+.1f %%)%s", figure, all > 0 ? "more" : "less", percent,
			     movers);
	return need(n < 0 ? NULL : answer);
}

/* --- tables --- */

static void set_calls(struct table *table, size_t column, double calls, size_t units)
{
	double each = round(calls / (double)units * 10) / 10;
	if (each == round(each))
		table_set(table, column, gather_whole(each));
	else
		table_set_real(table, column, each);
}

static void set_figures(const struct diff *diff, struct table *table, int64_t a, int64_t b, double p,
			enum compare_change change)
{
	table_set(table, D_A, a);
	table_set(table, D_B, b);
	table_set(table, D_MORE, b - a);
	if (diff->wall_a > 0)
		table_set_real(table, D_PERCENT, (double)(b - a) * 100 / diff->wall_a);
	table_set_text(table, D_CHANGE, compare_change_word(change));
	if (!isnan(p))
		table_set_real(table, D_P, p);
	if (change == CHANGE_MORE || change == CHANGE_NEW)
		table_mark(table);
}

static enum compare_change wall_change(const struct diff *diff)
{
	return !(diff->wall_p <= SHIFT_LEVEL) ? CHANGE_NONE : diff->wall_b > diff->wall_a ? CHANGE_MORE : CHANGE_LESS;
}

static struct table *breakdown_table(const struct diff *diff)
{
	struct table *table = table_new(breakdown_columns, D_COUNT);
	table_add(table);
	table_set_text(table, D_SIDE, "step");
	table_set_text(table, D_TITLE, "");
	table_set_text(table, D_ROW, "step");
	set_figures(diff, table, llround(diff->wall_a), llround(diff->wall_b), diff->wall_p, wall_change(diff));
	for (size_t i = 0; i < diff->breakdown.count; i++) {
		const struct compare_row *row = &diff->breakdown.rows[i];
		char side[32] = "host", title[96];
		if (row->group >= 0)
			snprintf(side, sizeof side, "device %d", row->group);
		snprintf(title, sizeof title, "%s%s", row->parent ? "  " : "", row->name);
		table_add(table);
		table_set_text(table, D_SIDE, side);
		if (row->group >= 0)
			table_set(table, D_NAME, row->group);
		table_set_text(table, D_ROW, row->word);
		table_set_text(table, D_PARENT, row->parent);
		table_set_text(table, D_TITLE, title);
		set_figures(diff, table, row->a.mean, row->b.mean, row->p, row->change);
	}
	if (diff->breakdown.doubt[0] && diff->breakdown.groups)
		table_note(table, "why the devices were idle is not known: %s", diff->breakdown.doubt);
	return table;
}

/* Without `changed`: only of those that have changed. */
static struct table *names_table(const struct diff *diff, const struct compare_table *from, bool whole)
{
	struct table *table = table_new(name_columns, D_COUNT);
	/* Samples are no calls. */
	bool counted = from != &diff->kinds[COMPARE_lines];
	for (size_t i = 0; i < from->count; i++) {
		const struct compare_row *row = &from->rows[i];
		if (!whole && row->change == CHANGE_NONE)
			continue;
		table_add(table);
		table_set_text(table, D_NAME, row->name);
		set_figures(diff, table, row->a.mean, row->b.mean, row->p, row->change);
		if (counted) {
			set_calls(table, D_CALLS_A, row->a.calls, diff->a.units);
			set_calls(table, D_CALLS_B, row->b.calls, diff->b.units);
		}
		table_set(table, D_PLAIN, row->plain);
	}
	return table;
}

/* --- text --- */

/* Prints a text behind `indent` columns that are printed already; its further lines begin at the same column. */
static void print_on(const struct screen *screen, const char *text, size_t indent)
{
	print_wrapped(stdout, text, indent, screen->width > indent + 20 ? screen->width - indent : SIZE_MAX, 0);
	putchar('\n');
}

static void print_side(const struct screen *screen, const char *letter, const struct side *side, double wall)
{
	cJSON *facts = setup_facts(side);
	char figure[TEXT_FIGURE_BYTES], least[TEXT_FIGURE_BYTES], most[TEXT_FIGURE_BYTES];
	double low = INFINITY, high = 0;
	static const char *const shown[] = {"name", "gpu", "torch_version"};
	char *word = text_safe(side->word), *line = NULL;
	size_t bytes;
	FILE *to = need(open_memstream(&line, &bytes));
	char *cut = screen->width > INDENT + 20 ? text_cut(word, screen->width - INDENT) : need(strdup(word));
	fputs(cut, to);
	free(cut);
	for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
		const char *text = json_text(facts, shown[i]);
		char *safe = text_safe(text);
		if (text)
			fprintf(to, "%s%s%s", i ? ", " : "  ", strcmp(shown[i], "torch_version") == 0 ? "torch " : "",
				safe);
		free(safe);
	}
	for (size_t i = 0; i < side->units; i++) {
		low = fmin(low, side->walls[i]);
		high = fmax(high, side->walls[i]);
	}
	fprintf(to, ": %zu step%s%s, %s a step", side->units, side->units == 1 ? "" : "s",
		side->count > 1 ? " of several captures" : "", text_duration(figure, llround(wall)));
	if (side->units > 1)
		fprintf(to, " (mean; %s to %s)", text_duration(least, llround(low)),
			text_duration(most, llround(high)));
	need(fclose(to) ? NULL : line);
	printf("  %s  ", letter);
	print_on(screen, line, INDENT);
	free(line);
	free(word);
	cJSON_Delete(facts);
}

static void print_differences(const struct diff *diff, const struct screen *screen)
{
	const cJSON *row;
	cJSON_ArrayForEach(row, diff->differences)
	{
		char *safe = text_safe(json_text(row, "sentence"));
		printf("  %s!%s  ", screen_warn(screen), screen_plain(screen));
		print_on(screen, safe, INDENT);
		free(safe);
	}
}

static void print_table(const char *heading, struct table *table, const struct screen *screen, size_t limit)
{
	printf("\n%s%s%s\n", screen_bold(screen), heading, screen_plain(screen));
	if (table_rows(table))
		table_print(table, screen, limit);
	else
		puts("  none");
	table_free(table);
}

static bool is_chosen(const struct diff *diff, const char *name)
{
	return strcmp(diff->by, "all") == 0 || strcmp(diff->by, name) == 0;
}

static void print_list(const struct screen *screen, const char *what, const char *names)
{
	char line[320];
	snprintf(line, sizeof line, "%s%s", what, names);
	putchar('\n');
	print_on(screen, line, 0);
}

/* What has changed in each kind; for a kind that was asked for, all of it. */
static void print_kinds(const struct diff *diff, const struct screen *screen)
{
	bool alone = strcmp(diff->by, "all") != 0, untested = isnan(diff->wall_p);
	char same[256] = "", missing[256] = "";
	for (size_t i = 0; i < COMPARE_KINDS; i++) {
		const struct compare_table *kind = &diff->kinds[i];
		char *to = kind->recorded_a && kind->recorded_b ? same : missing;
		struct table *table;
		if (!is_chosen(diff, compare_kinds[i].name))
			continue;
		table = names_table(diff, kind, alone || untested);
		if (table_rows(table) || (alone && to == same)) {
			print_table(compare_kinds[i].heading, table, screen, diff->limit);
			continue;
		}
		table_free(table);
		snprintf(to + strlen(to), sizeof same - strlen(to), "%s%s", *to ? ", " : "", compare_kinds[i].name);
	}
	if (*same)
		print_list(screen, "nothing has moved in: ", same);
	if (*missing)
		print_list(screen, "not recorded on both sides: ", missing);
}

void diff_print_text(const struct diff *diff)
{
	struct screen screen = screen_output();
	char *answer = diff_answer(diff), *safe = text_safe(answer);
	if (diff->full_names)
		screen.width = 0;
	fputs(screen_bold(&screen), stdout);
	print_on(&screen, safe, 0);
	printf("%s\n", screen_plain(&screen));
	free(safe);
	free(answer);
	print_side(&screen, "A", &diff->a, diff->wall_a);
	print_side(&screen, "B", &diff->b, diff->wall_b);
	print_differences(diff, &screen);
	if (is_chosen(diff, "breakdown"))
		print_table("Where a step goes", breakdown_table(diff), &screen, 0);
	print_kinds(diff, &screen);
	if (isnan(diff->wall_p))
		print_list(&screen,
			   "not tested: ", "it takes more steps, such as 3 of each side (`profd trigger --steps 5`)");
}

/* --- for programs --- */

static cJSON *side_json(const struct side *side, double wall)
{
	cJSON *object = setup_facts(side), *captures, *list;
	json_add_text(object, "side", side->word);
	captures = need(cJSON_AddArrayToObject(object, "captures"));
	for (size_t i = 0; i < side->count; i++) {
		const char *id =
			side->captures[i].capture.row ? json_text(side->captures[i].capture.row, "capture_id") : NULL;
		cJSON_AddItemToArray(captures, need(id ? cJSON_CreateString(id) : cJSON_CreateNull()));
	}
	need(cJSON_AddNumberToObject(object, "steps", (double)side->units));
	need(cJSON_AddNumberToObject(object, "step_ns", (double)llround(wall)));
	list = need(cJSON_AddArrayToObject(object, "walls_ns"));
	for (size_t i = 0; i < side->units; i++)
		cJSON_AddItemToArray(list, need(cJSON_CreateNumber((double)llround(side->walls[i]))));
	return object;
}

static void add_rows(cJSON *object, const char *key, struct table *table, size_t limit)
{
	cJSON_AddItemToObject(object, key, table_json(table, limit));
	table_free(table);
}

void diff_print_json(const struct diff *diff)
{
	cJSON *object = json_new("diff"), *step;
	char *answer = diff_answer(diff);
	json_add_text(object, "answer", answer);
	free(answer);
	cJSON_AddItemToObject(object, "a", side_json(&diff->a, diff->wall_a));
	cJSON_AddItemToObject(object, "b", side_json(&diff->b, diff->wall_b));
	step = need(cJSON_AddObjectToObject(object, "step"));
	need(cJSON_AddNumberToObject(step, "a_ns", (double)llround(diff->wall_a)));
	need(cJSON_AddNumberToObject(step, "b_ns", (double)llround(diff->wall_b)));
	need(cJSON_AddNumberToObject(step, "difference_ns", (double)(llround(diff->wall_b) - llround(diff->wall_a))));
	need(diff->wall_a > 0 ? cJSON_AddNumberToObject(step, "percent", (diff->wall_b / diff->wall_a - 1) * 100)
			      : cJSON_AddNullToObject(step, "percent"));
	need(isnan(diff->wall_p) ? cJSON_AddNullToObject(step, "p") : cJSON_AddNumberToObject(step, "p", diff->wall_p));
	json_add_text(step, "change", compare_change_word(wall_change(diff)));
	need(cJSON_AddNumberToObject(object, "level", SHIFT_LEVEL));
	need(cJSON_AddBoolToObject(object, "tested", !isnan(diff->wall_p)));
	cJSON_AddItemToObject(object, "differences", need(cJSON_Duplicate(diff->differences, true)));
	if (is_chosen(diff, "breakdown"))
		add_rows(object, "breakdown", breakdown_table(diff), 0);
	for (size_t i = 0; i < COMPARE_KINDS; i++) {
		const struct compare_table *kind = &diff->kinds[i];
		if (!is_chosen(diff, compare_kinds[i].name))
			continue;
		if (kind->recorded_a && kind->recorded_b)
			add_rows(object, compare_kinds[i].key, names_table(diff, kind, true), diff->limit);
		else
			need(cJSON_AddNullToObject(object, compare_kinds[i].key));
	}
	json_print(object);
}

void diff_print_csv(const struct diff *diff)
{
	struct table *table = NULL;
	if (strcmp(diff->by, "breakdown") == 0)
		table = breakdown_table(diff);
	for (size_t i = 0; !table && i < COMPARE_KINDS; i++)
		if (strcmp(diff->by, compare_kinds[i].name) == 0)
			table = names_table(diff, &diff->kinds[i], true);
	table_csv(table, stdout, diff->limit);
	table_free(table);
}
