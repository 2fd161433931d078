/* fold.c - see fold.h. No locks. */
#include "fold.h"
#include "proto/base/hash.h"

#include <stdlib.h>
#include <string.h>

/* The agent follows 512 open ranges of a thread. */
#define DEPTH_MAX 1024u
#define THREADS_MAX (1u << 16)
#define CLIPPED_MAX (1u << 16)

struct fold_node {
	struct fold_call call;
	uint64_t id, parent;
	uint32_t thread;
	uint16_t depth;
	bool is_operator;
};

/* The children of `parent` so far. */
struct fold_level {
	uint64_t parent;
	struct fold_children children;
	uint16_t depth; /* of the children */
};

struct fold_thread {
	uint32_t thread, sequence;
	bool taken;
	struct fold_level *levels; /* a stack, the deepest level on top; most depths have no level */
	unsigned count, capacity;
};

static struct fold_thread *place(struct fold_thread *threads, size_t capacity, uint32_t thread)
{
	size_t i = (size_t)hash_of(thread, 0) & (capacity - 1);
	while (threads[i].taken && threads[i].thread != thread)
		i = (i + 1) & (capacity - 1);
	return &threads[i];
}

static struct fold_thread *thread_of(struct fold *fold, uint32_t tid)
{
	if (fold->count * 2 >= fold->capacity) {
		size_t capacity = fold->capacity ? fold->capacity * 2 : 64;
		struct fold_thread *threads =
			capacity > 2ull * THREADS_MAX ? NULL : memory_get(fold->memory, capacity * sizeof *threads);
		if (!threads) {
			fold->broken = true;
			return NULL;
		}
		for (size_t i = 0; i < fold->capacity; i++)
			if (fold->threads[i].taken)
				*place(threads, capacity, fold->threads[i].thread) = fold->threads[i];
		memory_put(fold->memory, fold->threads, fold->capacity * sizeof *threads);
		fold->threads = threads;
		fold->capacity = capacity;
	}
	struct fold_thread *thread = place(fold->threads, fold->capacity, tid);
	if (!thread->taken) {
		thread->taken = true;
		thread->thread = tid;
		fold->count++;
	}
	return thread;
}

static bool room_for_level(struct fold *fold, struct fold_thread *thread)
{
	if (thread->count < thread->capacity)
		return true;
	unsigned capacity = thread->capacity ? thread->capacity * 2 : 4;
	struct fold_level *levels =
		memory_grow(fold->memory, thread->levels, thread->capacity * sizeof *levels, capacity * sizeof *levels);
	if (!levels) {
		fold->broken = true;
		return false;
	}
	thread->levels = levels;
	thread->capacity = capacity;
	return true;
}

/* Closes the levels of this depth and deeper. */
static void close_levels(struct fold *fold, struct fold_thread *thread, unsigned from)
{
	while (thread->count && thread->levels[thread->count - 1].depth >= from)
		fold_release(&thread->levels[--thread->count].children, fold->call, fold->context);
}

static struct fold_level *level_at(struct fold_thread *thread, unsigned depth)
{
	struct fold_level *top = thread->count ? &thread->levels[thread->count - 1] : NULL;
	return top && top->depth == depth ? top : NULL;
}

static void arrive(struct fold *fold, const struct fold_node *node)
{
	struct fold_thread *thread = thread_of(fold, node->thread);
	unsigned depth = node->depth;
	if (!thread)
		return;
	if (depth >= DEPTH_MAX) {
		fold->broken = true;
		return;
	}
	struct fold_call call = node->call;
	/* Levels deeper than this record's children wait for parents that will not come. */
	close_levels(fold, thread, depth + 2);
	struct fold_level *inner = level_at(thread, depth + 1);
	if (inner && inner->parent == node->id && node->is_operator)
		fold_parent(&inner->children, &call);
	close_levels(fold, thread, depth + 1);
	if (!node->parent) {
		close_levels(fold, thread, depth);
		if (node->is_operator)
			fold->call(fold->context, &call);
		return;
	}
	struct fold_level *level = level_at(thread, depth);
	if (!level || level->parent != node->parent) {
		close_levels(fold, thread, depth);
		if (!room_for_level(fold, thread))
			return;
		level = &thread->levels[thread->count++];
		*level = (struct fold_level){.parent = node->parent, .depth = (uint16_t)depth};
	}
	fold_child(&level->children, node->is_operator ? &call : NULL, fold->call, fold->context);
}

static void keep_clipped(struct fold *fold, const struct fold_node *node)
{
	if (fold->clipped_count == fold->clipped_capacity) {
		size_t capacity = fold->clipped_capacity ? fold->clipped_capacity * 2 : 64;
		struct fold_node *grown = capacity > CLIPPED_MAX ? NULL
								 : memory_grow(fold->memory, fold->clipped,
									       fold->clipped_capacity * sizeof *grown,
									       capacity * sizeof *grown);
		if (!grown) {
			fold->broken = true;
			return;
		}
		fold->clipped = grown;
		fold->clipped_capacity = capacity;
	}
	fold->clipped[fold->clipped_count++] = *node;
}

void fold_chunk(struct fold *fold, uint32_t writer, uint32_t sequence)
{
	struct fold_thread *thread = fold->broken ? NULL : thread_of(fold, writer);
	if (!thread)
		return;
	if (sequence <= thread->sequence)
		fold->broken = true;
	thread->sequence = sequence;
}

void fold_add(struct fold *fold, const union event_any *event)
{
	struct fold_node node;
	if (fold->broken)
		return;
	if (event->head.kind == EVENT_OPERATOR) {
		const struct event_operator *o = &event->operator;
		node = (struct fold_node){
			{o->name, o->head.step, o->duration, o->self}, o->id, o->parent, o->thread, o->depth, true};
	} else {
		const struct event_range *r = &event->range;
		node = (struct fold_node){
			{r->name, r->head.step, r->duration, r->self}, r->id, r->parent, r->thread, r->depth, false};
		/* The range is on no thread's stack. */
		if (r->source == RANGE_SOURCE_NVTX_START_END)
			return;
	}
	if (event->head.flags & EVENT_FLAG_ASYNC) {
		if (node.is_operator)
			fold->call(fold->context, &node.call);
	} else if (event->head.flags & EVENT_FLAG_CLIPPED) {
		keep_clipped(fold, &node);
	} else {
		arrive(fold, &node);
	}
}

static int compare_depths(const void *a, const void *b)
{
	const struct fold_node *x = a, *y = b;
	return (x->depth < y->depth) - (x->depth > y->depth);
}

void fold_end(struct fold *fold)
{
	/* Inner records first, as if they had ended in order. */
	if (fold->clipped_count)
		qsort(fold->clipped, fold->clipped_count, sizeof *fold->clipped, compare_depths);
	for (size_t i = 0; i < fold->clipped_count && !fold->broken; i++)
		arrive(fold, &fold->clipped[i]);
	fold->clipped_count = 0;
	for (size_t i = 0; i < fold->capacity && !fold->broken; i++)
		close_levels(fold, &fold->threads[i], 0);
}

void fold_deinit(struct fold *fold)
{
	for (size_t i = 0; i < fold->capacity; i++)
		memory_put(fold->memory, fold->threads[i].levels,
			   fold->threads[i].capacity * sizeof *fold->threads[i].levels);
	memory_put(fold->memory, fold->threads, fold->capacity * sizeof *fold->threads);
	memory_put(fold->memory, fold->clipped, fold->clipped_capacity * sizeof *fold->clipped);
	memset(fold, 0, sizeof *fold);
}
