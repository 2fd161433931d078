/* ids.c - see ids.h. */
#include "ids.h"

#include "client/ui/text.h"

#include <stdlib.h>

static struct id_entry *slot(const struct ids *ids, int64_t id)
{
	size_t at = (size_t)((uint64_t)id * 0x9e3779b97f4a7c15u >> 32) & (ids->room - 1);

	while (ids->table[at].used && ids->table[at].id != id)
		at = (at + 1) & (ids->room - 1);
	return &ids->table[at];
}

struct id_entry *ids_make(struct ids *ids, int64_t id)
{
	struct id_entry *entry;

	if (2 * ids->count >= ids->room) {
		struct ids larger = {.room = ids->room ? 2 * ids->room : 64, .count = ids->count};

		larger.table = need(calloc(larger.room, sizeof *larger.table));
		for (size_t i = 0; i < ids->room; i++)
			if (ids->table[i].used)
				*slot(&larger, ids->table[i].id) = ids->table[i];
		free(ids->table);
		*ids = larger;
	}
	entry = slot(ids, id);
	if (!entry->used) {
		*entry = (struct id_entry){.id = id, .used = true};
		ids->count++;
	}
	return entry;
}

struct id_entry *ids_find(const struct ids *ids, int64_t id)
{
	struct id_entry *entry = ids->room ? slot(ids, id) : NULL;

	return entry && entry->used ? entry : NULL;
}

void ids_free(struct ids *ids)
{
	free(ids->table);
	*ids = (struct ids){0};
}

/* A table by distance is worth up to so many places for each id. */
#define SPREAD 8

static int64_t id_at(const int64_t *ids, size_t stride, size_t place)
{
	return *(const int64_t *)(const void *)((const char *)ids + place * stride);
}

static void find_distances(struct id_places *places, const int64_t *ids, size_t stride, size_t count)
{
	int64_t least = INT64_MAX, most = INT64_MIN, far;

	for (size_t i = 0; i < count; i++) {
		int64_t id = id_at(ids, stride, i);

		least = id < least ? id : least;
		most = id > most ? id : most;
	}
	if (!count || __builtin_sub_overflow(most, least, &far) || (uint64_t)far / SPREAD >= count)
		return;
	places->least = least;
	places->distances = (size_t)far + 1;
	places->by_distance = need(calloc(places->distances, sizeof *places->by_distance));
}

void id_places_make(struct id_places *ret, const int64_t *ids, size_t stride, size_t count)
{
	*ret = (struct id_places){0};
	find_distances(ret, ids, stride, count);
	for (size_t i = 0; i < count; i++) {
		int64_t id = id_at(ids, stride, i);

		if (ret->by_distance) {
			size_t *place = &ret->by_distance[id - ret->least];

			*place = *place ? *place : i + 1;
		} else {
			struct id_entry *entry = ids_make(&ret->sparse, id);

			entry->value = entry->value ? entry->value : (int64_t)i + 1;
		}
	}
}

size_t id_places_find(const struct id_places *places, int64_t id)
{
	const struct id_entry *entry;

	if (places->by_distance) {
		uint64_t distance = (uint64_t)id - (uint64_t)places->least;

		return distance < places->distances ? places->by_distance[distance] - 1 : ID_PLACE_NONE;
	}
	entry = ids_find(&places->sparse, id);
	return entry ? (size_t)entry->value - 1 : ID_PLACE_NONE;
}

void id_places_free(struct id_places *places)
{
	free(places->by_distance);
	ids_free(&places->sparse);
	*places = (struct id_places){0};
}
