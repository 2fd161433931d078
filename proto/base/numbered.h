/* numbered.h - gives keys of three integers the numbers 0, 1, 2, ... in the order in which they come, and each key a
 * value. No locks. */
#ifndef PROFD_PROTO_BASE_NUMBERED_H
#define PROFD_PROTO_BASE_NUMBERED_H

#include "memory.h"

#define NUMBERED_NONE UINT32_MAX

struct numbered_key {
	int64_t a, b, c;
};

struct numbered {
	size_t bytes;		   /* of a value */
	struct memory *memory;	   /* not owned; NULL: nothing is counted or bounded */
	struct numbered_key *keys; /* by number */
	char *values;		   /* by number */
	uint32_t *slots;	   /* open addressing: number + 1, 0 = free */
	size_t count, room, capacity;
};

void numbered_deinit(struct numbered *numbered);
/* The key's value; zeros for a new key. The address is valid until the next key is added. NULL: there is no memory. */
void *numbered_add(struct numbered *numbered, int64_t a, int64_t b, int64_t c);
/* The key's number; NUMBERED_NONE: it has none. */
uint32_t numbered_find(const struct numbered *numbered, int64_t a, int64_t b, int64_t c);

static inline void *numbered_at(const struct numbered *numbered, uint32_t number)
{
	return numbered->values + (size_t)number * numbered->bytes;
}

static inline uint32_t numbered_of(const struct numbered *numbered, const void *value)
{
	return (uint32_t)((size_t)((const char *)value - numbered->values) / numbered->bytes);
}

#endif
