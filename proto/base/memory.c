/* memory.c - see memory.h. Threads: all. No locks. */
#include "memory.h"

#include <stdbool.h>
#include <stdlib.h>

static bool count(struct memory *memory, size_t bytes, bool anyway)
{
	if (!memory)
		return true;
	uint64_t used = atomic_fetch_add_explicit(&memory->used, bytes, memory_order_relaxed) + bytes;
	if (anyway || used <= atomic_load_explicit(&memory->most, memory_order_relaxed))
		return true;
	atomic_fetch_sub_explicit(&memory->used, bytes, memory_order_relaxed);
	return false;
}

static void discount(struct memory *memory, size_t bytes)
{
	if (memory)
		atomic_fetch_sub_explicit(&memory->used, bytes, memory_order_relaxed);
}

static void *get(struct memory *memory, size_t bytes, bool anyway)
{
	if (!count(memory, bytes, anyway))
		return NULL;
	void *made = calloc(1, bytes);
	if (!made)
		discount(memory, bytes);
	return made;
}

static void *grow(struct memory *memory, void *old, size_t from, size_t to, bool anyway)
{
	if (!count(memory, to - from, anyway))
		return NULL;
	void *grown = realloc(old, to);
	if (!grown)
		discount(memory, to - from);
	return grown;
}

void *memory_get(struct memory *memory, size_t bytes)
{
	return get(memory, bytes, false);
}

void *memory_get_anyway(struct memory *memory, size_t bytes)
{
	return get(memory, bytes, true);
}

void *memory_grow(struct memory *memory, void *old, size_t from, size_t to)
{
	return grow(memory, old, from, to, false);
}

void *memory_grow_anyway(struct memory *memory, void *old, size_t from, size_t to)
{
	return grow(memory, old, from, to, true);
}

void memory_put(struct memory *memory, void *old, size_t bytes)
{
	free(old);
	discount(memory, bytes);
}
