/* memory.h - what ingest and derive hold of one user's captures, beside their segments: counted, and bounded for all of them
 * together. Whoever is refused goes on with less: sorts in smaller portions, or asks the file instead. Any thread. */
#ifndef PROFD_BASE_MEMORY_H
#define PROFD_BASE_MEMORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct memory {
	_Atomic uint64_t used, most; /* bytes */
};

/* `memory` may be NULL: nobody's, and not bounded. Zeroed bytes; NULL where there are no more. */
void *memory_get(struct memory *memory, size_t bytes);
/* Counted as well, but beyond the bound too: what nothing can be done without, and is small. */
void *memory_get_anyway(struct memory *memory, size_t bytes);
/* As realloc: NULL leaves the old as it is. */
void *memory_grow(struct memory *memory, void *old, size_t from, size_t to);
void *memory_grow_anyway(struct memory *memory, void *old, size_t from, size_t to);
/* Takes NULL, with 0 bytes. */
void memory_put(struct memory *memory, void *old, size_t bytes);

#endif
