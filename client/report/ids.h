/* ids.h - a map from 64-bit ids to numbers: an open hash table that is never more than half full. One thread. */
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

#endif
