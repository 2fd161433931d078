/* tree.c - operators and ranges by what called them: of each way by which they are reached, the calls and their time. */
#include "names.h"
#include "parts.h"

#include "client/report/query.h"
#include "client/report/recorded.h"
#include "client/ui/figure.h"
#include "client/ui/text.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What takes less than this part of all is not drawn. */
#define SMALLEST 4000
#define MOST_NODES 6000
#define NONE SIZE_MAX

struct call {
	int64_t id, parent, name, total, self, device;
	size_t node;
	uint16_t depth;
	bool outside; /* encloses a step: its children stand by themselves */
};

struct node {
	size_t parent; /* NONE: at the top */
	int64_t name, calls, total, self, device;
	size_t next;  /* with the same hash */
	size_t index; /* in the page; NONE: too small */
};

struct tree {
	struct call *calls; /* by depth */
	size_t count, room;
	size_t *by_id;	 /* open addressing: index of a call + 1 */
	size_t id_slots; /* a power of two */
	struct node *nodes;
	size_t node_count, node_room;
	size_t *buckets; /* index of a node + 1 */
	size_t bucket_count;
};

static uint64_t mix(uint64_t value)
{
	value ^= value >> 31;
	value *= UINT64_C(0x9e3779b97f4a7c15);
	return value ^ value >> 29;
}

static void read_calls(struct tree *tree, const struct reader *reader)
{
	sqlite3_stmt *statement = report_prepare(
		reader,
		"SELECT id, parent, name, duration, self, depth, 0 FROM operators UNION ALL SELECT id, parent, name, "
		"duration, self, depth, name IN (SELECT id FROM strings WHERE text GLOB 'ProfilerStep#*') FROM ranges");
	while (report_next(reader, statement)) {
		if (!bounds_row(reader->bounds))
			report_damaged(reader);
		NEED_ROOM(tree->calls, tree->count, tree->room);
		tree->calls[tree->count++] = (struct call){
			.id = sqlite3_column_int64(statement, 0),
			.parent = sqlite3_column_int64(statement, 1),
			.name = sqlite3_column_int64(statement, 2),
			.total = figure_length(sqlite3_column_int64(statement, 3)),
			.self = figure_length(sqlite3_column_int64(statement, 4)),
			.depth = (uint16_t)sqlite3_column_int(statement, 5),
			.outside = sqlite3_column_int(statement, 6) != 0,
			.node = NONE,
		};
	}
}

/* So that each call comes after the one that it is in. */
static void sort_by_depth(struct tree *tree)
{
	size_t *starts = need(calloc(UINT16_MAX + 2, sizeof *starts));
	struct call *sorted = need(calloc(tree->count + 1, sizeof *sorted));
	for (size_t i = 0; i < tree->count; i++)
		starts[tree->calls[i].depth + 1]++;
	for (size_t depth = 0; depth <= UINT16_MAX; depth++)
		starts[depth + 1] += starts[depth];
	for (size_t i = 0; i < tree->count; i++)
		sorted[starts[tree->calls[i].depth]++] = tree->calls[i];
	free(tree->calls);
	free(starts);
	tree->calls = sorted;
}

static void index_ids(struct tree *tree)
{
	tree->id_slots = 16;
	while (tree->id_slots < 2 * tree->count)
		tree->id_slots *= 2;
	tree->by_id = need(calloc(tree->id_slots, sizeof *tree->by_id));
	for (size_t i = 0; i < tree->count; i++) {
		size_t slot = mix((uint64_t)tree->calls[i].id) & (tree->id_slots - 1);
		while (tree->by_id[slot])
			slot = (slot + 1) & (tree->id_slots - 1);
		tree->by_id[slot] = i + 1;
	}
}

static struct call *find_call(const struct tree *tree, int64_t id)
{
	size_t slot = mix((uint64_t)id) & (tree->id_slots - 1);
	for (; tree->by_id[slot]; slot = (slot + 1) & (tree->id_slots - 1))
		if (tree->calls[tree->by_id[slot] - 1].id == id)
			return &tree->calls[tree->by_id[slot] - 1];
	return NULL;
}

/* Read by itself: a join would look for each operator in a table that few are in. */
static void read_devices(struct tree *tree, const struct reader *reader)
{
	sqlite3_stmt *statement = report_prepare(reader, "SELECT id, self FROM range_devices");
	while (report_next(reader, statement)) {
		struct call *call = find_call(tree, sqlite3_column_int64(statement, 0));
		if (!bounds_row(reader->bounds))
			report_damaged(reader);
		if (call)
			call->device = figure_length(sqlite3_column_int64(statement, 1));
	}
}

static size_t bucket_of(const struct tree *tree, size_t parent, int64_t name)
{
	return mix(mix((uint64_t)parent + 1) ^ (uint64_t)name) & (tree->bucket_count - 1);
}

static void grow_buckets(struct tree *tree)
{
	free(tree->buckets);
	tree->bucket_count = tree->bucket_count ? 2 * tree->bucket_count : 1024;
	tree->buckets = need(calloc(tree->bucket_count, sizeof *tree->buckets));
	for (size_t i = 0; i < tree->node_count; i++) {
		size_t bucket = bucket_of(tree, tree->nodes[i].parent, tree->nodes[i].name);
		tree->nodes[i].next = tree->buckets[bucket];
		tree->buckets[bucket] = i + 1;
	}
}

static size_t node_of(struct tree *tree, size_t parent, int64_t name)
{
	if (tree->node_count >= tree->bucket_count)
		grow_buckets(tree);
	size_t bucket = bucket_of(tree, parent, name);
	for (size_t i = tree->buckets[bucket]; i; i = tree->nodes[i - 1].next)
		if (tree->nodes[i - 1].parent == parent && tree->nodes[i - 1].name == name)
			return i - 1;
	NEED_ROOM(tree->nodes, tree->node_count, tree->node_room);
	tree->nodes[tree->node_count] =
		(struct node){.parent = parent, .name = name, .next = tree->buckets[bucket], .index = NONE};
	tree->buckets[bucket] = tree->node_count + 1;
	return tree->node_count++;
}

static void place(struct tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		struct call *call = &tree->calls[i];
		const struct call *above = call->parent ? find_call(tree, call->parent) : NULL;
		/* A parent that is not less deep is none: the file is not what it says. */
		if (above && above->depth >= call->depth)
			above = NULL;
		if (call->outside)
			continue;
		call->node = node_of(tree, above ? above->node : NONE, call->name);
		struct node *node = &tree->nodes[call->node];
		node->calls++;
		figure_add(&node->total, call->total);
		figure_add(&node->self, call->self);
		figure_add(&node->device, call->device);
	}
	/* Nodes stand behind those that they are in: from the last to the first, each hands its time on. */
	for (size_t i = tree->node_count; i > 0; i--)
		if (tree->nodes[i - 1].parent != NONE)
			figure_add(&tree->nodes[tree->nodes[i - 1].parent].device, tree->nodes[i - 1].device);
}

static int64_t sum_of_roots(const struct tree *tree, bool device)
{
	int64_t sum = 0;
	for (size_t i = 0; i < tree->node_count; i++)
		if (tree->nodes[i].parent == NONE)
			figure_add(&sum, device ? tree->nodes[i].device : tree->nodes[i].total);
	return sum;
}

static void write_nodes(struct tree *tree, const struct reader *reader, cJSON *to)
{
	cJSON *nodes = need(cJSON_AddArrayToObject(to, "nodes"));
	int64_t least = sum_of_roots(tree, false) / SMALLEST, least_device = sum_of_roots(tree, true) / SMALLEST;
	struct page_names names;
	size_t written = 0;
	page_names_init(&names, reader);
	for (size_t i = 0; i < tree->node_count; i++) {
		struct node *node = &tree->nodes[i];
		bool orphan = node->parent != NONE && tree->nodes[node->parent].index == NONE;
		if (orphan || written == MOST_NODES || (node->total <= least && node->device <= least_device))
			continue;
		const double values[] = {
			node->parent == NONE ? -1 : (double)tree->nodes[node->parent].index,
			(double)page_name(&names, node->name),
			(double)node->calls,
			(double)node->total,
			(double)node->self,
			(double)node->device,
		};
		cJSON_AddItemToArray(nodes, need(cJSON_CreateDoubleArray(values, sizeof values / sizeof *values)));
		node->index = written++;
	}
	need(cJSON_AddNumberToObject(to, "left_out", (double)(tree->node_count - written)));
	cJSON_AddItemToObject(to, "names", names.array);
	page_names_deinit(&names);
}

cJSON *page_tree(const struct reader *reader)
{
	struct tree tree = {0};
	cJSON *to = need(cJSON_CreateObject());
	bool device = report_attributed(reader);
	need(cJSON_AddBoolToObject(to, "device", device));
	read_calls(&tree, reader);
	sort_by_depth(&tree);
	index_ids(&tree);
	if (device)
		read_devices(&tree, reader);
	place(&tree);
	write_nodes(&tree, reader, to);
	free(tree.calls);
	free(tree.by_id);
	free(tree.nodes);
	free(tree.buckets);
	return to;
}
