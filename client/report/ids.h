/* ids.h - a map from 64-bit ids to numbers: an open hash table that is never more than half full; and the places in a
 * list, by id. One thread. */
#ifndef PROFD_CLIENT_REPORT_IDS_H
#define PROFD_CLIENT_REPORT_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct id_entry {
	int64_t id, value;
	bool used;
};

/* Zeroed, it is empty. */
struct ids {
	struct id_entry *table;
	size_t room; /* a power of two, or 0 */
	size_t count;
};

/* The entry of an id; a new one has the value 0. The entry moves when the next one is made. */
struct id_entry *ids_make(struct ids *ids, int64_t id);
/* NULL: there is none. */
struct id_entry *ids_find(const struct ids *ids, int64_t id);
void ids_free(struct ids *ids);

/* The place in a list at which an id stands; of several with one id, the first. The ids of a recording lie close
 * together: then this needs no hash, and ids that are near in the file are near in memory. */
struct id_places {
	int64_t least;
	size_t *by_distance; /* by distance from the least id: place + 1, 0: none; NULL: the ids lie too far apart */
	size_t distances;
	struct ids sparse; /* used in that case: place + 1 */
};

#define ID_PLACE_NONE SIZE_MAX

/* `ids`: the first of `count` ids, each `stride` bytes after the one before. Call id_places_free() afterwards. */
void id_places_make(struct id_places *ret, const int64_t *ids, size_t stride, size_t count);
size_t id_places_find(const struct id_places *places, int64_t id);
void id_places_free(struct id_places *places);

#endif
