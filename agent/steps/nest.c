/* nest.c - an entry for each thread and kind, which the thread alone writes to; no locks, nothing allocated. */
#include "nest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#define ENTRIES 1024u /* threads times kinds; a power of two */
#define PROBES 16u
/* So many inside of one that never ends: its end was lost (a context switch of the job's own, a longjmp). */
#define INSIDE_MOST 64u

struct entry {
	_Atomic uint64_t key; /* 0 = free */
	uint64_t word;
	uint32_t depth, inside, era;
};
static struct entry entries[ENTRIES];
static _Atomic uint32_t eras[NEST_COUNT];
/* Taken by threads for which there is no room: all that they do is outermost. */
static uint64_t nowhere;

static struct entry *entry_of(enum nest kind, int make)
{
	uint64_t key = ((uint64_t)(uintptr_t)pthread_self() << 3 | (uint64_t)kind) + 1;
	uint32_t at = (uint32_t)(key * 0xd6e8feb86659fd93ull >> 40);
	uint32_t era = atomic_load_explicit(&eras[kind], memory_order_relaxed);
	for (uint32_t i = 0; i < PROBES; i++) {
		struct entry *e = &entries[(at + i) & (ENTRIES - 1)];
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
		return e;
	}
	return NULL;
}

uint64_t *nest_enter(enum nest kind)
{
	struct entry *e = entry_of(kind, 1);
	if (!e)
		return &nowhere;
	return e->depth++ ? NULL : &e->word;
}

int nest_leave(enum nest kind, uint64_t *ret_word)
{
	struct entry *e = entry_of(kind, 0);
	*ret_word = 0;
	if (!e || !e->depth)
		return 1;
	if (--e->depth == 0) {
		*ret_word = e->word;
		e->inside = 0;
		return 1;
	}
	if (++e->inside >= INSIDE_MOST)
		e->depth = e->inside = 0;
	return 0;
}

int nest_inside(enum nest kind)
{
	struct entry *e = entry_of(kind, 0);
	return e && e->depth;
}

void nest_forget(enum nest kind)
{
	atomic_fetch_add_explicit(&eras[kind], 1, memory_order_relaxed);
}
