/* intern.h - one number for each text, in memory that grows with how many there are, not with how long they are. */
#ifndef PROFD_CLIENT_IMPORT_INTERN_H
#define PROFD_CLIENT_IMPORT_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct intern_key {
	uint64_t a, b;
};

struct intern {
	struct {
		struct intern_key key;
		uint32_t id; /* 0 = empty place */
	} * table;	     /* open addressing, a power of two */
	size_t capacity;
	uint32_t count;
};

/* A text's key: 128 bits that nobody can foresee, so that two texts do not have the same. `key`: of what stands before it; {0} at the
 * start. */
struct intern_key intern_key(struct intern_key key, const void *bytes, size_t n);
/* The text's number, from 1 on; *ret_new: it is a new one. 0: no memory, or there are over 4 billions. */
uint32_t intern_id(struct intern *intern, struct intern_key key, bool *ret_new);
void intern_free(struct intern *intern);

#endif
