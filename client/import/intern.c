/* intern.c - see intern.h. */
#include "intern.h"

#include "proto/base/hash.h"

#include <stdlib.h>
#include <string.h>

struct intern_key intern_key(struct intern_key key, const void *bytes, size_t n)
{
	const unsigned char *at = bytes;
	key.a = hash_of(key.a, n);
	key.b = hash_of(n, ~key.b);
	while (n) {
		uint64_t word = 0;
		size_t part = n < sizeof word ? n : sizeof word;
		memcpy(&word, at, part);
		key.a = hash_of(key.a ^ word, key.b);
		key.b = hash_of(key.b + 0x9e3779b97f4a7c15u, ~word ^ key.a);
		at += part;
		n -= part;
	}
	return key;
}

static bool grow(struct intern *intern)
{
	size_t capacity = intern->capacity ? intern->capacity * 2 : 4096;
	struct intern grown = {
		.table = calloc(capacity, sizeof *grown.table), .capacity = capacity, .count = intern->count};
	if (!grown.table)
		return false;
	for (size_t i = 0; i < intern->capacity; i++) {
		if (!intern->table[i].id)
			continue;
		size_t at = intern->table[i].key.a & (capacity - 1);
		while (grown.table[at].id)
			at = (at + 1) & (capacity - 1);
		grown.table[at] = intern->table[i];
	}
	free(intern->table);
	*intern = grown;
	return true;
}

uint32_t intern_id(struct intern *intern, struct intern_key key, bool *ret_new)
{
	*ret_new = false;
	if (((size_t)intern->count + 1) * 2 > intern->capacity && !grow(intern))
		return 0;
	size_t at = key.a & (intern->capacity - 1);
	for (; intern->table[at].id; at = (at + 1) & (intern->capacity - 1))
		if (intern->table[at].key.a == key.a && intern->table[at].key.b == key.b)
			return intern->table[at].id;
	if (intern->count == UINT32_MAX)
		return 0;
	*ret_new = true;
	intern->table[at].key = key;
	intern->table[at].id = ++intern->count;
	return intern->count;
}

void intern_free(struct intern *intern)
{
	free(intern->table);
	*intern = (struct intern){0};
}
