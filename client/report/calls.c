/* calls.c - see calls.h. Calls are sorted by their depth, so that each comes after the one that it is in. */
#include "calls.h"

#include "query.h"
#include "recorded.h"

#include "client/ui/figure.h"
#include "client/ui/text.h"

#include "proto/events.h"

#include <sqlite3.h>
#include <stdlib.h>

/* The name of torch.profiler's range of a step has the step's number in it. */
#define PROFILER_STEPS "SELECT id FROM strings WHERE text GLOB 'ProfilerStep#[0-9]*'"

/* What is not nested in a thread's other calls has no place in the tree. */
#define CALLS                                                                                                          \
	"SELECT id, parent, thread, name, duration, self, depth, 0 FROM operators "                                    \
	"WHERE NOT flags & 2 AND (?1 = 0 OR step = ?1) UNION ALL "                                                     \
	"SELECT id, parent, thread, name, duration, self, depth, name IN (" PROFILER_STEPS ") FROM ranges "            \
	"WHERE NOT flags & 2 AND source <> 2 AND (?1 = 0 OR step = ?1)"
_Static_assert(EVENT_FLAG_ASYNC == 2 && RANGE_SOURCE_NVTX_START_END == 2, "as the statement has them");

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
	size_t *by_id;	 /* open addressing: place of a call + 1 */
	size_t id_slots; /* a power of two */
	size_t node_room;
	size_t *next;	     /* of a node: the next one in its bucket; 0: none */
	size_t *buckets;     /* place of a node */
	size_t bucket_count; /* a power of two */
};

static uint64_t mix(uint64_t value)
{
	value ^= value >> 31;
	value *= UINT64_C(0x9e3779b97f4a7c15);
	return value ^ value >> 29;
}

static void read_calls(struct building *to, const struct reader *reader)
{
	sqlite3_stmt *statement = report_prepare(reader, CALLS);

	sqlite3_bind_int64(statement, 1, to->options->step);
	while (report_next(reader, statement)) {
		NEED_ROOM(to->list, to->count, to->room);
		to->list[to->count++] = (struct call){
			.id = sqlite3_column_int64(statement, 0),
			.parent = sqlite3_column_int64(statement, 1),
			.thread = sqlite3_column_int64(statement, 2),
			.name = sqlite3_column_int64(statement, 3),
			.total = figure_length(sqlite3_column_int64(statement, 4)),
			.self = figure_length(sqlite3_column_int64(statement, 5)),
			.depth = (uint16_t)sqlite3_column_int(statement, 6),
			.profiler_step = sqlite3_column_int(statement, 7) != 0,
		};
	}
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

static void index_ids(struct building *to)
{
	to->id_slots = 16;
	while (to->id_slots < 2 * to->count)
		to->id_slots *= 2;
	to->by_id = need(calloc(to->id_slots, sizeof *to->by_id));
	for (size_t i = 0; i < to->count; i++) {
		size_t slot = mix((uint64_t)to->list[i].id) & (to->id_slots - 1);

		/* Of several with one id the first has it. */
		while (to->by_id[slot] && to->list[to->by_id[slot] - 1].id != to->list[i].id)
			slot = (slot + 1) & (to->id_slots - 1);
		if (!to->by_id[slot])
			to->by_id[slot] = i + 1;
	}
}

static struct call *find_call(const struct building *from, int64_t id)
{
	size_t slot = mix((uint64_t)id) & (from->id_slots - 1);

	for (; from->by_id[slot]; slot = (slot + 1) & (from->id_slots - 1))
		if (from->list[from->by_id[slot] - 1].id == id)
			return &from->list[from->by_id[slot] - 1];
	return NULL;
}

/* Read by itself: a join would look for each operator in a table that few are in. */
static void read_devices(struct building *to, const struct reader *reader)
{
	sqlite3_stmt *statement = report_prepare(reader, "SELECT id, self, total FROM range_devices");

	while (report_next(reader, statement)) {
		struct call *call = find_call(to, sqlite3_column_int64(statement, 0));

		if (call) {
			call->device_self = figure_length(sqlite3_column_int64(statement, 1));
			call->device_total = figure_length(sqlite3_column_int64(statement, 2));
		}
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

/* The steps of torch.profiler are one node: all have the first one's name. */
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
	/* A parent that is not less deep, or of another thread, is none: the file is not what it says. */
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
	read_calls(&to, reader);
	sort_by_depth(&to);
	index_ids(&to);
	/* Files of schema 1 have no table of the device's figures. */
	if (report_attributed(reader))
		read_devices(&to, reader);
	for (size_t i = 0; i < to.count; i++)
		place(&to, &to.list[i]);
	free(to.list);
	free(to.by_id);
	free(to.next);
	free(to.buckets);
}

void calls_free(struct calls *calls)
{
	free(calls->nodes);
	*calls = (struct calls){0};
}
