/* names.c - see names.h. */
#include "names.h"

#include "client/report/query.h"
#include "client/report/recorded.h"
#include "client/ui/figure.h"
#include "client/ui/text.h"

#include "proto/events.h"
#include "store/findings/module_paths.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROFILER_STEP "ProfilerStep#"

const struct compare_kind compare_kinds[COMPARE_KINDS] = {
#define KIND(name, key, heading, fills, sql, sentence) [COMPARE_##name] = {#name, key, heading, fills, sql},
#include "kinds.def"
};

static void name_of(const struct compare_kind *kind, sqlite3_stmt *row, char *to, size_t bytes)
{
	const char *words[3];
	for (int i = 0; i < 3; i++)
		words[i] = NULL;
	if (kind == &compare_kinds[COMPARE_copies]) {
		words[0] = copy_kind_word((unsigned)sqlite3_column_int64(row, 3));
		words[1] = memory_kind_word((unsigned)sqlite3_column_int64(row, 4));
		words[2] = memory_kind_word((unsigned)sqlite3_column_int64(row, 5));
		snprintf(to, bytes, "Memcpy %s (%s -> %s)", words[0] ? words[0] : "Unknown",
			 words[1] ? words[1] : "Unknown", words[2] ? words[2] : "Unknown");
	} else {
		words[0] = memory_kind_word((unsigned)sqlite3_column_int64(row, 3));
		snprintf(to, bytes, "Memset (%s)", words[0] ? words[0] : "Unknown");
	}
}

/* "train.py:46 fetched": of its path the file's own name, since the two sides may run from different folders. */
static void name_line(sqlite3_stmt *row, char *to, size_t bytes)
{
	char place[REPORT_LINE_BYTES];
	const char *function = (const char *)sqlite3_column_text(row, 5);
	if (!report_line(place, row, 3, 4))
		snprintf(to, bytes, "(no Python)");
	else
		snprintf(to, bytes, "%s%s%s", place, function ? " " : "", function ? function : "");
}

static const char *text_of(const struct compare_kind *kind, sqlite3_stmt *row, char *room, size_t bytes)
{
	if (kind == &compare_kinds[COMPARE_lines]) {
		name_line(row, room, bytes);
		return room;
	}
	if (kind == &compare_kinds[COMPARE_copies] || kind == &compare_kinds[COMPARE_memsets]) {
		name_of(kind, row, room, bytes);
		return room;
	}
	const char *text = (const char *)sqlite3_column_text(row, 3);
	/* torch.profiler numbers its steps: the number is no name. */
	if (text && strncmp(text, PROFILER_STEP, strlen(PROFILER_STEP)) == 0)
		return PROFILER_STEP;
	return text ? text : "(nameless)";
}

static void gather_names(struct gather *gather, const struct compare_kind *kind, const struct side *side)
{
	char room[REPORT_LINE_BYTES + 256];
	for (size_t c = 0; c < side->count; c++) {
		const struct side_capture *capture = &side->captures[c];
		const struct reader *reader = &capture->capture.reader;
		sqlite3_stmt *statement = report_prepare(reader, kind->sql);
		while (report_next(reader, statement)) {
			size_t unit = side_unit(capture, sqlite3_column_int64(statement, 0));
			if (unit == SIZE_MAX)
				continue;
			gather_add(gather, gather_named(gather, text_of(kind, statement, room, sizeof room)), side,
				   unit, (double)figure_length(sqlite3_column_int64(statement, 1)),
				   (double)figure_length(sqlite3_column_int64(statement, 2)));
		}
	}
}

static bool is_recorded(const struct side *side, const struct compare_kind *kind)
{
	bool all = true;
	for (size_t i = 0; i < side->count; i++) {
		const struct reader *reader = &side->captures[i].capture.reader;
		all = all && report_filled(reader, kind->fills) &&
		      (kind != &compare_kinds[COMPARE_lines] || report_ran(reader, "python"));
	}
	return all;
}

char *compare_plain_name(const char *name)
{
	static const char nameless[] = "(anonymous namespace)";
	char *plain = need(malloc(strlen(name) + 1));
	size_t n = 0, depth = 0;
	if (strncmp(name, "void ", 5) == 0)
		name += 5;
	while (*name) {
		if (depth == 0 && strncmp(name, nameless, strlen(nameless)) == 0) {
			memcpy(plain + n, nameless, strlen(nameless));
			n += strlen(nameless);
			name += strlen(nameless);
			continue;
		}
		if (depth == 0 && *name == '(')
			break;
		/* "operator<" and "->" do not occur in the names of kernels; what is left open ends with the name. */
		if (*name == '<')
			depth++;
		else if (*name == '>' && depth)
			depth--;
		else if (!depth)
			plain[n++] = *name;
		name++;
	}
	plain[n] = '\0';
	return plain;
}

/* "train.py:46 fetched" without the number; to be freed. Functions of the Python that is meant here have no ":" in their names. */
static char *line_without_number(const char *name)
{
	char *plain = need(strdup(name)), *colon = strrchr(plain, ':');
	if (colon) {
		size_t digits = strspn(colon + 1, "0123456789");
		memmove(colon, colon + 1 + digits, strlen(colon + 1 + digits) + 1);
	}
	return plain;
}

struct loner {
	size_t row;
	char *plain;
};

static int by_plain(const void *a, const void *b)
{
	const struct loner *one = a, *other = b;
	int order = strcmp(one->plain, other->plain);
	return order ? order : (one->row > other->row) - (one->row < other->row);
}

static bool is_lone(const struct compare_row *row)
{
	return (row->a.seen > 0) != (row->b.seen > 0);
}

static void add_figures(struct compare_figures *to, const struct compare_figures *from)
{
	to->sum += from->sum;
	to->calls += from->calls;
	to->seen = fmax(to->seen, from->seen);
}

/* Makes one row of several, in the first one's place; the others are emptied. Its name ends with the suffix. */
static void join(struct compare_table *table, const struct loner *loners, size_t count, size_t values,
		 const char *suffix)
{
	size_t bytes = strlen(loners[0].plain) + strlen(suffix) + 1;
	struct compare_row *to = &table->rows[loners[0].row];
	for (size_t i = 1; i < count; i++) {
		struct compare_row *from = &table->rows[loners[i].row];
		add_figures(&to->a, &from->a);
		add_figures(&to->b, &from->b);
		for (size_t v = 0; v < values; v++)
			to->values[v] += from->values[v];
		from->a = from->b = (struct compare_figures){0};
	}
	free(to->name);
	to->name = need(malloc(bytes));
	snprintf(to->name, bytes, "%s%s", loners[0].plain, suffix);
	to->plain = true;
}

/* Rows that only one side has are compared by a plainer name, where both sides have such. */
static void join_plain(struct gather *gather, char *(*plain_name)(const char *name), const char *suffix)
{
	struct compare_table *table = gather->table;
	struct loner *loners = need(calloc(table->count + 1, sizeof *loners));
	size_t count = 0;
	for (size_t i = 0; i < table->count; i++)
		if (is_lone(&table->rows[i]))
			loners[count++] = (struct loner){i, plain_name(table->rows[i].name)};
	qsort(loners, count, sizeof *loners, by_plain);
	for (size_t i = 0, end; i < count; i = end) {
		bool a = false, b = false;
		for (end = i; end < count && strcmp(loners[i].plain, loners[end].plain) == 0; end++) {
			a = a || table->rows[loners[end].row].a.seen > 0;
			b = b || table->rows[loners[end].row].b.seen > 0;
		}
		if (a && b)
			join(table, loners + i, end - i, gather->a->blocks.count + gather->b->blocks.count, suffix);
	}
	for (size_t i = 0; i < count; i++)
		free(loners[i].plain);
	free(loners);
}

/* What has changed stands first, then the larger difference. */
static int by_size(const void *a, const void *b)
{
	const struct compare_row *one = a, *other = b;
	int64_t left = llabs(one->b.mean - one->a.mean), right = llabs(other->b.mean - other->a.mean);
	bool changed = one->change != CHANGE_NONE, other_changed = other->change != CHANGE_NONE;
	if (changed != other_changed)
		return changed ? -1 : 1;
	if (left != right)
		return left < right ? 1 : -1;
	return strcmp(one->name, other->name);
}

void compare_names(const struct side *a, const struct side *b, const struct compare_kind *kind,
		   struct compare_table *ret)
{
	*ret = (struct compare_table){.recorded_a = is_recorded(a, kind), .recorded_b = is_recorded(b, kind)};
	struct gather gather = {.a = a, .b = b, .table = ret};
	if (!ret->recorded_a || !ret->recorded_b)
		return;
	gather_names(&gather, kind, a);
	gather_names(&gather, kind, b);
	gather_end_names(&gather);
	if (kind == &compare_kinds[COMPARE_kernels])
		join_plain(&gather, compare_plain_name, "<...>");
	if (kind == &compare_kinds[COMPARE_lines])
		join_plain(&gather, line_without_number, "");
	compare_drop_empty(ret);
	for (size_t i = 0; i < ret->count; i++) {
		ret->rows[i].a.mean = gather_whole(ret->rows[i].a.sum / (double)a->units);
		ret->rows[i].b.mean = gather_whole(ret->rows[i].b.sum / (double)b->units);
	}
	gather_test(&gather);
	if (ret->count)
		qsort(ret->rows, ret->count, sizeof *ret->rows, by_size);
}
