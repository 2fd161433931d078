/* numbered.c - see numbered.h. */
#include "numbered.h"

#include "hash.h"

#include <stdbool.h>
#include <string.h>

#define LEAST ((size_t)64)

void numbered_deinit(struct numbered *numbered)
{
	memory_put(numbered->memory, numbered->keys, numbered->room * sizeof *numbered->keys);
	memory_put(numbered->memory, numbered->values, numbered->room * numbered->bytes);
	memory_put(numbered->memory, numbered->slots, numbered->capacity * sizeof *numbered->slots);
	*numbered = (struct numbered){.memory = numbered->memory, .bytes = numbered->bytes};
}

/* The slot that has the key, or the free one where it would go. There is a free one. */
static uint32_t *slot_of(const struct numbered *numbered, const struct numbered_key *key)
{
	size_t mask = numbered->capacity - 1;
	size_t at = hash_of(hash_of((uint64_t)key->a, (uint64_t)key->b), (uint64_t)key->c) & mask;
	for (;; at = (at + 1) & mask) {
		uint32_t *slot = &numbered->slots[at];
		if (!*slot)
			return slot;
		const struct numbered_key *other = &numbered->keys[*slot - 1];
		if (other->a == key->a && other->b == key->b && other->c == key->c)
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

/* Keys and values have the same room. If only one of them can grow, both stay as they were. */
static bool more_room(struct numbered *numbered)
{
	size_t from = numbered->room, to = from + from / 4 + LEAST;
	char *values = memory_grow(numbered->memory, numbered->values, from * numbered->bytes, to * numbered->bytes);
	if (!values)
		return false;
	numbered->values = values;
	struct numbered_key *keys =
		memory_grow(numbered->memory, numbered->keys, from * sizeof *keys, to * sizeof *keys);
	if (!keys) {
		memory_put(numbered->memory, NULL, (to - from) * numbered->bytes);
		return false;
	}
	numbered->keys = keys;
	numbered->room = to;
	return true;
}

void *numbered_add(struct numbered *numbered, int64_t a, int64_t b, int64_t c)
{
	const struct numbered_key key = {a, b, c};
	if (numbered->count * 2 >= numbered->capacity && !more_slots(numbered))
		return NULL;
	uint32_t *slot = slot_of(numbered, &key);
	if (*slot)
		return numbered_at(numbered, *slot - 1);
	if (numbered->count >= NUMBERED_NONE - 1 || (numbered->count == numbered->room && !more_room(numbered)))
		return NULL;
	numbered->keys[numbered->count] = key;
	*slot = (uint32_t)++numbered->count;
	return memset(numbered_at(numbered, *slot - 1), 0, numbered->bytes);
}

uint32_t numbered_find(const struct numbered *numbered, int64_t a, int64_t b, int64_t c)
{
	const struct numbered_key key = {a, b, c};
	return numbered->capacity ? *slot_of(numbered, &key) - 1 : NUMBERED_NONE;
}
