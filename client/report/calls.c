/* calls.c - see calls.h. Calls are sorted by their depth, so that each one comes after the call around it. */
#include "calls.h"

#include "ids.h"
#include "query.h"
#include "recorded.h"

#include "client/ui/figure.h"
#include "client/ui/text.h"

#include "proto/events.h"

#include <sqlite3.h>
#include <stdlib.h>

/* The name of torch.profiler's range of a step has the step's number in it. */
#define PROFILER_STEPS "SELECT id FROM strings WHERE text GLOB 'ProfilerStep#[0-9]*'"

/* A call that is not nested with its thread's other calls has no place in the tree. */
#define OPERATORS                                                                                                      \
	"SELECT count(profd_row(depth, id, parent, thread, name, duration, self, 0)) FROM operators WHERE NOT flags & 2 AND" REPORT_STEP
#define RANGES                                                                                                         \
	"SELECT count(profd_row(depth, id, parent, thread, name, duration, self, name IN (" PROFILER_STEPS "))) FROM " \
	"ranges WHERE NOT flags & 2 AND source <> 2 AND" REPORT_STEP
_Static_assert(EVENT_FLAG_ASYNC == 2 && RANGE_SOURCE_NVTX_START_END == 2, "as the statements have them");

struct call {
	int64_t id, parent, thread, name, total, self, device_total, device_self;
	size_t node;
	uint16_t depth;
	bool profiler_step;
};

struct building {
	struct calls *calls;
	const struct calls_options *options;
	struct call *list; /* by depth */
	size_t count, room;
	struct id_places places;
	size_t node_room;
	size_t *next;	     /* by node: the next one in its bucket; 0: none */
	size_t *buckets;     /* index of a node */
	size_t bucket_count; /* a power of two */
};

static uint64_t mix(uint64_t value)
{
	value ^= value >> 31;
	value *= UINT64_C(0x9e3779b97f4a7c15);
	return value ^ value >> 29;
}

static void take_call(void *context, sqlite3_value **row)
{
	struct building *to = context;

	NEED_ROOM(to->list, to->count, to->room);
	to->list[to->count++] = (struct call){
		.id = int_of(row[1]),
		.parent = int_of(row[2]),
		.thread = int_of(row[3]),
		.name = int_of(row[4]),
		.total = figure_length(int_of(row[5])),
		.self = figure_length(int_of(row[6])),
		.depth = (uint16_t)int_of(row[0]),
		.profiler_step = int_of(row[7]) != 0,
	};
}

static void sort_by_depth(struct building *to)
{
	size_t *starts = need(calloc(UINT16_MAX + 2, sizeof *starts));
	struct call *sorted = need(calloc(to->count + 1, sizeof *sorted));

	for (size_t i = 0; i < to->count; i++)
		starts[to->list[i].depth + 1]++;
	for (size_t depth = 0; depth <= UINT16_MAX; depth++)
		starts[depth + 1] += starts[depth];
	for (size_t i = 0; i < to->count; i++)
		sorted[starts[to->list[i].depth]++] = to->list[i];
	free(to->list);
	free(starts);
	to->list = sorted;
}

static struct call *find_call(const struct building *from, int64_t id)
{
	size_t place = id_places_find(&from->places, id);

	return place == ID_PLACE_NONE ? NULL : &from->list[place];
}

static void take_device(void *context, sqlite3_value **row)
{
	struct call *call = find_call(context, int_of(row[0]));

	if (call) {
		call->device_self = figure_length(int_of(row[1]));
		call->device_total = figure_length(int_of(row[2]));
	}
}

static size_t bucket_of(const struct building *in, size_t parent, int64_t name, int64_t thread)
{
	return mix(mix(mix((uint64_t)parent + 1) ^ (uint64_t)name) ^ (uint64_t)thread) & (in->bucket_count - 1);
}

static void grow_buckets(struct building *to)
{
	const struct calls_node *nodes = to->calls->nodes;

	free(to->buckets);
	to->bucket_count = to->bucket_count ? 2 * to->bucket_count : 1024;
	to->buckets = need(calloc(to->bucket_count, sizeof *to->buckets));
	for (size_t i = 1; i < to->calls->count; i++) {
		size_t bucket = bucket_of(to, nodes[i].parent, nodes[i].name, nodes[i].thread);

		to->next[i] = to->buckets[bucket];
		to->buckets[bucket] = i;
	}
}

static size_t add_node(struct building *to, struct calls_node node)
{
	struct calls *calls = to->calls;
	size_t next_room = to->node_room;

	NEED_ROOM(calls->nodes, calls->count, to->node_room);
	NEED_ROOM(to->next, calls->count, next_room);
	calls->nodes[calls->count] = node;
	to->next[calls->count] = 0;
	return calls->count++;
}

static size_t node_of(struct building *to, size_t parent, int64_t name, int64_t thread)
{
	size_t bucket;

	if (to->calls->count >= to->bucket_count)
		grow_buckets(to);
	bucket = bucket_of(to, parent, name, thread);
	for (size_t i = to->buckets[bucket]; i; i = to->next[i]) {
		const struct calls_node *node = &to->calls->nodes[i];

		if (node->parent == parent && node->name == name && node->thread == thread)
			return i;
	}
	size_t made = add_node(to, (struct calls_node){.parent = parent, .name = name, .thread = thread});
	to->next[made] = to->buckets[bucket];
	to->buckets[bucket] = made;
	return made;
}

/* The steps of torch.profiler are one node: all get the name of the first one. */
static int64_t name_of(struct calls *calls, const struct call *call)
{
	if (!call->profiler_step)
		return call->name;
	if (!calls->profiler_steps)
		calls->profiler_steps = call->name;
	return calls->profiler_steps;
}

static void place(struct building *to, struct call *call)
{
	const struct call *above = call->parent ? find_call(to, call->parent) : NULL;
	struct calls_node *node;

	if (call->profiler_step && !to->options->profiler_steps)
		return;
	/* A parent must be less deep and of the same thread. In a hostile file it may not be so: then it is no
	 * parent. */
	if (above && (above->depth >= call->depth || above->thread != call->thread))
		above = NULL;
	call->node = node_of(to, above ? above->node : 0, name_of(to->calls, call),
			     to->options->by_thread ? call->thread : 0);
	node = &to->calls->nodes[call->node];
	node->calls++;
	figure_add(&node->total, call->total);
	figure_add(&node->self, call->self);
	figure_add(&node->device_total, call->device_total);
	figure_add(&node->device_self, call->device_self);
}

void calls_read(struct calls *calls, const struct reader *reader, const struct calls_options *options)
{
	struct building to = {.calls = calls, .options = options};

	*calls = (struct calls){0};
	add_node(&to, (struct calls_node){0});
	report_scan(reader, OPERATORS, options->step, take_call, &to);
	report_scan(reader, RANGES, options->step, take_call, &to);
	sort_by_depth(&to);
	id_places_make(&to.places, &to.list->id, sizeof *to.list, to.count);
	/* Files of schema 1 lack the table of the device's figures. */
	if (report_attributed(reader))
		/* Read by itself: a join would look up each operator in a table that has only a few of them. */
		report_scan(reader, "SELECT 1 FROM range_devices WHERE profd_row(id, self, total)", 0, take_device,
			    &to);
	for (size_t i = 0; i < to.count; i++)
		place(&to, &to.list[i]);
	free(to.list);
	id_places_free(&to.places);
	free(to.next);
	free(to.buckets);
}

void calls_free(struct calls *calls)
{
	free(calls->nodes);
	*calls = (struct calls){0};
}
