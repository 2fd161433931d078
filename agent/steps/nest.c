/* nest.c - see nest.h. The table of entries. */
#include "nest.h"

#include <pthread.h>

#define ENTRIES 1024u /* threads times kinds; a power of two */
#define PROBES 16u

static struct nest_entry entries[ENTRIES];
__thread struct nest_entry *nest_own;
_Atomic uint32_t nest_eras[NEST_COUNT];

struct nest_entry *nest_find(enum nest kind, int make)
{
	uint64_t key = ((uint64_t)(uintptr_t)pthread_self() << 3 | (uint64_t)kind) + 1;
	uint32_t at = (uint32_t)(key * 0xd6e8feb86659fd93ull >> 40);
	uint32_t era = atomic_load_explicit(&nest_eras[kind], memory_order_relaxed);
	for (uint32_t i = 0; i < PROBES; i++) {
		struct nest_entry *e = &entries[(at + i) & (ENTRIES - 1)];
		uint64_t held = atomic_load_explicit(&e->key, memory_order_relaxed);
		if (!held && !make)
			return NULL;
		if (held != key && (held || !atomic_compare_exchange_strong_explicit(
						    &e->key, &held, key, memory_order_relaxed, memory_order_relaxed)))
			continue;
		if (e->era != era) {
			e->depth = e->inside = 0;
			e->era = era;
		}
		if (kind == NEST_OPTIMIZER)
			nest_own = e;
		return e;
	}
	return NULL;
}

void nest_forget(enum nest kind)
{
	atomic_fetch_add_explicit(&nest_eras[kind], 1, memory_order_relaxed);
}
