/* numbered.h - keys of three integers get the numbers 0, 1, 2, ... in the order in which they come. What is known of a key stands in an
 * array of the caller's, at its number. No locks. */
#ifndef PROFD_STORE_NUMBERED_H
#define PROFD_STORE_NUMBERED_H

#include "proto/base/memory.h"

#include <stdbool.h>

#define NUMBERED_NONE UINT32_MAX

struct numbered_key {
	int64_t a, b, c;
};

struct numbered {
	struct numbered_key *keys; /* by number */
	uint32_t *slots;	   /* open addressing: number + 1, 0 = free */
	size_t count, room, capacity;
	struct memory *memory; /* not owned; NULL: nothing is counted or bounded */
};

void numbered_deinit(struct numbered *numbered);
/* The key's number, a new one where it has none; NUMBERED_NONE: there is no memory. */
uint32_t numbered_add(struct numbered *numbered, int64_t a, int64_t b, int64_t c);
/* NUMBERED_NONE: it has none. */
uint32_t numbered_find(const struct numbered *numbered, int64_t a, int64_t b, int64_t c);
/* All numbers in the order of their keys; NULL: there is no memory. To be given back by memory_put(memory, order, count * 4 + 4). */
uint32_t *numbered_sorted(const struct numbered *numbered);
/* Makes room at `number` in an array of elements of `bytes` each, zeroed; *room: of how many elements it has room. The array, which may have
 * moved, or NULL: there is no memory, and it is as it was. To be given back by memory_put(memory, array, room * bytes). */
void *numbered_room(struct memory *memory, void *array, size_t *room, uint32_t number, size_t bytes);

#endif
