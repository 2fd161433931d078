/* memory.h - memory with a bound that several users share: the daemon has one bound for all captures of a user, beside their
 * segments. A caller who is refused works with less: it sorts smaller portions, or reads the file instead. Any thread. */
#ifndef PROFD_PROTO_BASE_MEMORY_H
#define PROFD_PROTO_BASE_MEMORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct memory {
	_Atomic uint64_t used, most; /* bytes */
};

/* Zeroed bytes, or NULL where the bound is reached or malloc fails. `memory` may be NULL: then nothing is counted or bounded. */
void *memory_get(struct memory *memory, size_t bytes);
/* The same, but beyond the bound too. For what is small, and without which nothing can be done. */
void *memory_get_anyway(struct memory *memory, size_t bytes);
/* Like realloc: on NULL the old bytes stay as they are. */
void *memory_grow(struct memory *memory, void *old, size_t from, size_t to);
void *memory_grow_anyway(struct memory *memory, void *old, size_t from, size_t to);
/* Frees and uncounts. `old` may be NULL with 0 bytes. */
void memory_put(struct memory *memory, void *old, size_t bytes);

#endif
