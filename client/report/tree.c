/* tree.c - the operators and ranges of the steps as a tree: calls of one name in one place are one row. A table that is cut shows
 * the largest rows; what a row stands in is larger than itself, so it is there, too. */
#include "ids.h"
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "client/ui/figure.h"
#include "client/ui/text.h"

#include "proto/events.h"

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

/* One call. */
struct call {
	int64_t id, parent, thread, name, total, self, self_device, device;
	size_t node; /* 1 + its place; 0: not known yet */
	bool waits;  /* on the way up from it its parents are being looked for */
};

struct calls {
	struct call *list;
	size_t count, room;
	struct ids places; /* id -> 1 + place */
};

/* All calls of one name in one place. Place 0 is that of no row: the root. */
struct node {
	size_t parent;
	int64_t name, thread;
	int64_t calls, total, self, self_device, device;
	size_t first, next; /* children, the largest first once they are sorted; 0: none */
	unsigned depth;
	bool shown;
};

struct tree {
	struct node *list;
	size_t count, room;
	struct ids hash; /* of parent, name and thread -> place of the last such; chained by `same` */
	size_t *same;
};

/* The device's figures are read only where there are any: files of schema 1 have no table of them. */
#define COLUMNS "SELECT o.id, o.parent, o.thread, o.name, o.duration, o.self"
#define PART "NOT o.flags & 2 AND (?1 = 0 OR o.step = ?1)"
#define DEVICE ", d.self, d.total FROM %s o LEFT JOIN range_devices d ON d.id = o.id WHERE "
#define NO_DEVICE ", 0, 0 FROM %s o WHERE "

static const struct {
	const char *table, *condition;
} sources[] = {{"operators", PART}, {"ranges", PART " AND o.source <> 2"}};
_Static_assert(EVENT_FLAG_ASYNC == 2 && RANGE_SOURCE_NVTX_START_END == 2, "as the statements have them");

/* torch.profiler's range of each step has the step's number in its name. They are one row. */
#define STEPS_OF_PROFILER "ProfilerStep#"

static void find_steps(const struct reader *reader, struct ids *steps)
{
	sqlite3_stmt *statement = report_prepare(
		reader, "SELECT id, min(id) OVER () FROM strings WHERE text GLOB '" STEPS_OF_PROFILER "[0-9]*'");

	while (report_next(reader, statement))
		ids_make(steps, sqlite3_column_int64(statement, 0))->value = sqlite3_column_int64(statement, 1);
}

static int64_t name_of(const struct ids *steps, int64_t name)
{
	const struct id_entry *step = ids_find(steps, name);

	return step ? step->value : name;
}

static void load(const struct reader *reader, struct calls *calls, const struct ids *steps, size_t source, int64_t step)
{
	sqlite3_stmt *statement;
	char sql[320], from[128];

	snprintf(from, sizeof from, report_attributed(reader) ? DEVICE : NO_DEVICE, sources[source].table);
	snprintf(sql, sizeof sql, COLUMNS "%s%s", from, sources[source].condition);
	statement = report_prepare(reader, sql);
	sqlite3_bind_int64(statement, 1, step);
	while (report_next(reader, statement)) {
		NEED_ROOM(calls->list, calls->count, calls->room);
		calls->list[calls->count++] = (struct call){
			.id = sqlite3_column_int64(statement, 0),
			.parent = sqlite3_column_int64(statement, 1),
			.thread = sqlite3_column_int64(statement, 2),
			.name = name_of(steps, sqlite3_column_int64(statement, 3)),
			.total = figure_length(sqlite3_column_int64(statement, 4)),
			.self = figure_length(sqlite3_column_int64(statement, 5)),
			.self_device = figure_length(sqlite3_column_int64(statement, 6)),
			.device = figure_length(sqlite3_column_int64(statement, 7)),
		};
		if (calls->list[calls->count - 1].id)
			ids_make(&calls->places, calls->list[calls->count - 1].id)->value = (int64_t)calls->count;
	}
}

static size_t node_of(struct tree *tree, size_t parent, int64_t name, int64_t thread)
{
	uint64_t hash =
		((uint64_t)parent * 0x9e3779b97f4a7c15u ^ (uint64_t)name) * 0xff51afd7ed558ccdu ^ (uint64_t)thread;
	struct id_entry *entry = ids_make(&tree->hash, (int64_t)hash);

	for (size_t at = (size_t)entry->value; at; at = tree->same[at])
		if (tree->list[at].parent == parent && tree->list[at].name == name && tree->list[at].thread == thread)
			return at;
	size_t same_room = tree->room;
	NEED_ROOM(tree->list, tree->count, tree->room);
	NEED_ROOM(tree->same, tree->count, same_room);
	tree->same[tree->count] = (size_t)entry->value;
	tree->list[tree->count] = (struct node){.parent = parent, .name = name, .thread = thread};
	entry->value = (int64_t)tree->count;
	return tree->count++;
}

/* The parent of a call, if it is in the tree, on the same thread. */
static struct call *parent_of(const struct calls *calls, const struct call *call)
{
	const struct id_entry *entry = call->parent ? ids_find(&calls->places, call->parent) : NULL;
	struct call *parent = entry ? &calls->list[entry->value - 1] : NULL;

	return parent && parent != call && parent->thread == call->thread ? parent : NULL;
}

/* Finds the node of a call, and of those that it stands in: up to one that is known, and down again. In a broken file parents may
 * go in a circle; there the way up ends. */
static void place(struct tree *tree, const struct calls *calls, struct call *call, struct call ***way, size_t *room)
{
	size_t length = 0, node = 0;

	for (struct call *at = call; at && !at->waits; at = parent_of(calls, at)) {
		if (at->node) {
			node = at->node;
			break;
		}
		NEED_ROOM(*way, length, *room);
		at->waits = true;
		(*way)[length++] = at;
	}
	while (length-- > 0) {
		struct call *at = (*way)[length];

		node = node_of(tree, node, at->name, at->thread);
		at->node = node;
		at->waits = false;
	}
}

static void add_up(struct tree *tree, struct calls *calls)
{
	size_t room = 64;
	struct call **way = need(calloc(room, sizeof *way));

	for (size_t i = 0; i < calls->count; i++)
		place(tree, calls, &calls->list[i], &way, &room);
	for (size_t i = 0; i < calls->count; i++) {
		const struct call *call = &calls->list[i];
		struct node *node = &tree->list[call->node];

		node->calls++;
		figure_add(&node->total, call->total);
		figure_add(&node->self, call->self);
		figure_add(&node->self_device, call->self_device);
		figure_add(&node->device, call->device);
	}
	free(way);
}

static const struct tree *sorting;

static int by_total(const void *a, const void *b)
{
	const struct node *one = &sorting->list[*(const size_t *)a], *other = &sorting->list[*(const size_t *)b];

	/* A parent was made before its children. */
	return ORDER(other->total, one->total) ?: ORDER(*(const size_t *)a, *(const size_t *)b);
}

/* Hangs each node below its parent, the largest first, and marks those that are shown. */
static void hang(struct tree *tree, size_t limit)
{
	size_t *order = need(calloc(tree->count, sizeof *order));
	size_t count = 0, shown = 0;

	for (size_t i = 1; i < tree->count; i++)
		order[count++] = i;
	sorting = tree;
	qsort(order, count, sizeof *order, by_total);
	for (size_t i = 0; i < count && (!limit || shown < limit); i++) {
		/* What it stands in is there already, but where a child of a broken file is longer. */
		for (size_t at = order[i]; at && !tree->list[at].shown; at = tree->list[at].parent) {
			tree->list[at].shown = true;
			shown++;
		}
	}
	for (size_t i = count; i-- > 0;) {
		struct node *node = &tree->list[order[i]], *parent = &tree->list[node->parent];

		node->next = parent->first;
		parent->first = order[i];
	}
	free(order);
}

struct printing {
	const struct reader *reader;
	struct table *table;
	sqlite3_stmt *strings;
	int64_t wall;
	struct ids steps;
	bool device;
};

static void put(struct printing *to, const struct node *node)
{
	struct table *table = to->table;
	const char *name = "(nameless)";
	char *text;

	sqlite3_bind_int64(to->strings, 1, node->name);
	if (sqlite3_step(to->strings) == SQLITE_ROW && sqlite3_column_bytes(to->strings, 0))
		name = (const char *)sqlite3_column_text(to->strings, 0);
	if (ids_find(&to->steps, node->name) && node->calls > 1)
		name = STEPS_OF_PROFILER "*";
	table_add(table);
	table_set_text(table, T_NAME, name);
	if (asprintf(&text, "%*s%s", (int)(2 * (node->depth < 40 ? node->depth : 40)), "", name) < 0)
		need(NULL);
	table_set_text(table, T_TREE, text);
	free(text);
	sqlite3_reset(to->strings);
	table_set(table, T_DEPTH, node->depth);
	table_set(table, T_THREAD, node->thread);
	table_set(table, T_CALLS, node->calls);
	table_set(table, T_TOTAL, node->total);
	if (to->wall > 0)
		table_set_real(table, T_PERCENT, (double)node->total * 100 / (double)to->wall);
	table_set(table, T_SELF, node->self);
	if (to->device) {
		table_set(table, T_SELF_DEVICE, node->self_device);
		table_set(table, T_DEVICE, node->device);
	}
}

/* From the top down, each before its children; without recursion, however deep it is. Returns how many were left out. */
static size_t put_all(struct printing *to, struct tree *tree)
{
	size_t at = tree->list[0].first, left_out = 0;

	while (at) {
		struct node *node = &tree->list[at];

		node->depth = node->parent ? tree->list[node->parent].depth + 1 : 0;
		if (node->shown)
			put(to, node);
		else
			left_out++;
		if (node->first) {
			at = node->first;
			continue;
		}
		while (at && !tree->list[at].next)
			at = tree->list[at].parent;
		at = at ? tree->list[at].next : 0;
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
	struct calls calls = {0};
	struct tree tree = {0};
	size_t left_out;

	/* The root. */
	node_of(&tree, 0, 0, 0);
	ids_free(&tree.hash);
	find_steps(reader, &to.steps);
	for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
		load(reader, &calls, &to.steps, i, options->step);
	add_up(&tree, &calls);
	hang(&tree, options->limit ? 2 * options->limit : 0);
	to.wall = wall_of(reader, options->step);
	to.strings = report_prepare(reader, "SELECT text FROM strings WHERE id = ?1");
	left_out = put_all(&to, &tree);
	sqlite3_finalize(to.strings);
	if (left_out)
		table_note(to.table, "... and %zu smaller rows; --limit 0 shows them", left_out);
	free(calls.list);
	ids_free(&calls.places);
	ids_free(&to.steps);
	free(tree.list);
	free(tree.same);
	ids_free(&tree.hash);
	return to.table;
}
