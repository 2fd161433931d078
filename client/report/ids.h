/* ids.h - a map from 64-bit ids to numbers: an open hash table that is never more than half full; and the places of a list by their ids. One thread. */
#ifndef PROFD_CLIENT_REPORT_IDS_H
#define PROFD_CLIENT_REPORT_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct id_entry {
	int64_t id, value;
	bool used;
};

/* Zeroed: empty. */
struct ids {
	struct id_entry *table;
	size_t room; /* a power of two, or 0 */
	size_t count;
};

/* The entry of an id, which is made with the value 0 where there is none. It moves with the next one that is made. */
struct id_entry *ids_make(struct ids *ids, int64_t id);
/* NULL where there is none. */
struct id_entry *ids_find(const struct ids *ids, int64_t id);
void ids_free(struct ids *ids);

/* Which place of a list has an id; of several with one id the first. A recording gives its ids in a row: there this needs no hash, and what
 * is near in the file is near in memory. */
struct id_places {
	int64_t least;
	size_t *by_distance; /* from the least id: place + 1, 0: none; NULL: the ids lie too far apart */
	size_t distances;
	struct ids sparse; /* then place + 1 */
};

#define ID_PLACE_NONE SIZE_MAX

/* `ids`: the first of `count` ids, each `stride` bytes behind the one before. To be freed by id_places_free(). */
void id_places_make(struct id_places *ret, const int64_t *ids, size_t stride, size_t count);
size_t id_places_find(const struct id_places *places, int64_t id);
void id_places_free(struct id_places *places);

#endif
