/* numbered.c - see numbered.h. */
#include "numbered.h"

#include "proto/base/array.h"
#include "proto/base/hash.h"

#include <stdlib.h>
#include <string.h>

#define LEAST ((size_t)64)

void numbered_deinit(struct numbered *numbered)
{
	memory_put(numbered->memory, numbered->keys, numbered->room * sizeof *numbered->keys);
	memory_put(numbered->memory, numbered->slots, numbered->capacity * sizeof *numbered->slots);
	*numbered = (struct numbered){.memory = numbered->memory};
}

void *numbered_room(struct memory *memory, void *array, size_t *room, uint32_t number, size_t bytes)
{
	if (number < *room)
		return array;
	size_t wanted = (size_t)number + number / 4 + LEAST;
	char *grown = memory_grow(memory, array, *room * bytes, wanted * bytes);
	if (!grown)
		return NULL;
	memset(grown + *room * bytes, 0, (wanted - *room) * bytes);
	*room = wanted;
	return grown;
}

/* The slot that has the key, or the free one where it would go. There is a free one. */
static uint32_t *slot_of(const struct numbered *numbered, const struct numbered_key *key)
{
	size_t mask = numbered->capacity - 1;
	for (size_t at = hash_of(hash_of((uint64_t)key->a, (uint64_t)key->b), (uint64_t)key->c) & mask;;
	     at = (at + 1) & mask) {
		uint32_t *slot = &numbered->slots[at];
		const struct numbered_key *other = &numbered->keys[*slot - 1];
		if (!*slot || (other->a == key->a && other->b == key->b && other->c == key->c))
			return slot;
	}
}

static bool more_slots(struct numbered *numbered)
{
	size_t wanted = numbered->capacity ? numbered->capacity * 2 : 2 * LEAST;
	uint32_t *slots = memory_get(numbered->memory, wanted * sizeof *slots);
	if (!slots)
		return false;
	memory_put(numbered->memory, numbered->slots, numbered->capacity * sizeof *slots);
	numbered->slots = slots;
	numbered->capacity = wanted;
	for (size_t i = 0; i < numbered->count; i++)
		*slot_of(numbered, &numbered->keys[i]) = (uint32_t)i + 1;
	return true;
}

uint32_t numbered_add(struct numbered *numbered, int64_t a, int64_t b, int64_t c)
{
	const struct numbered_key key = {a, b, c};
	if (numbered->count * 2 >= numbered->capacity && !more_slots(numbered))
		return NUMBERED_NONE;
	uint32_t *slot = slot_of(numbered, &key);
	if (*slot)
		return *slot - 1;
	uint32_t number = (uint32_t)numbered->count;
	struct numbered_key *keys = number < NUMBERED_NONE - 1 ? numbered_room(numbered->memory, numbered->keys,
									       &numbered->room, number, sizeof *keys)
							       : NULL;
	if (!keys)
		return NUMBERED_NONE;
	numbered->keys = keys;
	keys[number] = key;
	numbered->count++;
	*slot = number + 1;
	return number;
}

uint32_t numbered_find(const struct numbered *numbered, int64_t a, int64_t b, int64_t c)
{
	const struct numbered_key key = {a, b, c};
	return numbered->capacity ? *slot_of(numbered, &key) - 1 : NUMBERED_NONE;
}

static int by_key(const void *one, const void *other, void *keys)
{
	const struct numbered_key *a = (const struct numbered_key *)keys + *(const uint32_t *)one;
	const struct numbered_key *b = (const struct numbered_key *)keys + *(const uint32_t *)other;
	return a->a != b->a ? ORDER(a->a, b->a) : a->b != b->b ? ORDER(a->b, b->b) : ORDER(a->c, b->c);
}

uint32_t *numbered_sorted(const struct numbered *numbered)
{
	uint32_t *order = memory_get(numbered->memory, (numbered->count + 1) * sizeof *order);
	if (!order)
		return NULL;
	for (size_t i = 0; i < numbered->count; i++)
		order[i] = (uint32_t)i;
	if (numbered->count)
		qsort_r(order, numbered->count, sizeof *order, by_key, numbered->keys);
	return order;
}
