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
