/* tree.c - the operators and ranges of the steps as a tree: calls of one name in one place are one row. A table with
 * a limit shows the largest rows. A row's caller is larger than the row, so it is shown, too. */
#include "calls.h"
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "client/ui/text.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T_NAME, T_TREE, T_DEPTH, T_THREAD, T_CALLS, T_TOTAL, T_PERCENT, T_SELF, T_SELF_DEVICE, T_DEVICE };

static const struct column columns[] = {
	[T_NAME] = {"name", "", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[T_TREE] = {"", "OPERATORS, RANGES", COLUMN_TEXT, COLUMN_ELASTIC | COLUMN_TABLE_ONLY},
	[T_DEPTH] = {"depth", "", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	[T_THREAD] = {"thread", "", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	[T_CALLS] = {"calls", "CALLS", COLUMN_COUNT, 0},
	[T_TOTAL] = {"total_ns", "TOTAL", COLUMN_DURATION, 0},
	[T_PERCENT] = {"wall_percent", "WALL %", COLUMN_PERCENT, COLUMN_BARRED},
	[T_SELF] = {"self_ns", "SELF", COLUMN_DURATION, 0},
	[T_SELF_DEVICE] = {"self_device_ns", "SELF DEVICE", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
	[T_DEVICE] = {"device_ns", "DEVICE TOTAL", COLUMN_DURATION, COLUMN_OPTIONAL},
};

/* How the nodes of `calls` are shown, by the same indices. */
struct shown {
	size_t first, next; /* children, the largest first; 0: none */
	unsigned depth;
	bool shown;
};

static const struct calls *sorting;

static int by_total(const void *a, const void *b)
{
	const struct calls_node *one = &sorting->nodes[*(const size_t *)a],
				*other = &sorting->nodes[*(const size_t *)b];

	/* A parent's index is lower than those of its children. */
	return ORDER(other->total, one->total) ?: ORDER(*(const size_t *)a, *(const size_t *)b);
}

/* Puts each node below its parent, the largest first, and marks the nodes that are shown. A limit of 0 shows all. */
static struct shown *hang(const struct calls *calls, size_t limit)
{
	struct shown *list = need(calloc(calls->count, sizeof *list));
	size_t *order = need(calloc(calls->count, sizeof *order));
	size_t count = 0, shown = 0;

	for (size_t i = 1; i < calls->count; i++)
		order[count++] = i;
	sorting = calls;
	qsort(order, count, sizeof *order, by_total);
	for (size_t i = 0; i < count && (!limit || shown < limit); i++) {
		/* The callers are shown already, unless the file is hostile and a child is longer than its caller. */
		for (size_t at = order[i]; at && !list[at].shown; at = calls->nodes[at].parent) {
			list[at].shown = true;
			shown++;
		}
	}
	for (size_t i = count; i-- > 0;) {
		size_t parent = calls->nodes[order[i]].parent;

		list[order[i]].next = list[parent].first;
		list[parent].first = order[i];
	}
	for (size_t i = 1; i < calls->count; i++)
		list[i].depth = calls->nodes[i].parent ? list[calls->nodes[i].parent].depth + 1 : 0;
	free(order);
	return list;
}

struct printing {
	const struct reader *reader;
	struct table *table;
	sqlite3_stmt *strings;
	int64_t wall;
	struct calls calls;
	bool device;
};

static void put(struct printing *to, const struct calls_node *node, unsigned depth)
{
	struct table *table = to->table;
	const char *name = "(nameless)";
	char *text;

	sqlite3_bind_int64(to->strings, 1, node->name);
	if (sqlite3_step(to->strings) == SQLITE_ROW && sqlite3_column_bytes(to->strings, 0))
		name = (const char *)sqlite3_column_text(to->strings, 0);
	if (node->name == to->calls.profiler_steps && node->calls > 1)
		name = "ProfilerStep#*";
	table_add(table);
	table_set_text(table, T_NAME, name);
	if (asprintf(&text, "%*s%s", (int)(2 * (depth < 40 ? depth : 40)), "", name) < 0)
		need(NULL);
	table_set_text(table, T_TREE, text);
	free(text);
	sqlite3_reset(to->strings);
	table_set(table, T_DEPTH, depth);
	table_set(table, T_THREAD, node->thread);
	table_set(table, T_CALLS, node->calls);
	table_set(table, T_TOTAL, node->total);
	if (to->wall > 0)
		table_set_real(table, T_PERCENT, (double)node->total * 100 / (double)to->wall);
	table_set(table, T_SELF, node->self);
	if (to->device) {
		table_set(table, T_SELF_DEVICE, node->device_self);
		table_set(table, T_DEVICE, node->device_total);
	}
}

/* From the top down, each node before its children; without recursion, however deep the tree is. Returns how many
 * rows were left out. */
static size_t put_all(struct printing *to, const struct shown *list)
{
	size_t at = list[0].first, left_out = 0;

	while (at) {
		if (list[at].shown)
			put(to, &to->calls.nodes[at], list[at].depth);
		else
			left_out++;
		if (list[at].first) {
			at = list[at].first;
			continue;
		}
		while (at && !list[at].next)
			at = to->calls.nodes[at].parent;
		at = list[at].next;
	}
	return left_out;
}

static int64_t wall_of(const struct reader *reader, int64_t step)
{
	sqlite3_stmt *statement = report_prepare(reader, "SELECT sum(duration) FROM steps WHERE" REPORT_STEP);
	int64_t wall = 0;

	sqlite3_bind_int64(statement, 1, step);
	while (report_next(reader, statement))
		wall = sqlite3_column_int64(statement, 0);
	return wall;
}

struct table *report_tree(const struct reader *reader, const struct report_options *options)
{
	struct printing to = {
		.reader = reader, .table = table_new(COUNTED(columns)), .device = report_attributed(reader)};
	struct shown *list;
	size_t left_out;

	calls_read(&to.calls, reader,
		   &(struct calls_options){.step = options->step, .by_thread = true, .profiler_steps = true});
	list = hang(&to.calls, options->limit ? 2 * options->limit : 0);
	to.wall = wall_of(reader, options->step);
	to.strings = report_prepare(reader, "SELECT text FROM strings WHERE id = ?1");
	left_out = put_all(&to, list);
	sqlite3_finalize(to.strings);
	if (left_out)
		table_note(to.table, "... and %zu smaller rows; --limit 0 shows them", left_out);
	free(list);
	calls_free(&to.calls);
	return to.table;
}
