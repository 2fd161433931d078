/* step_range.c - finds the ends of ranges that are a capture's steps.
 *
 * Any thread; no locks. A thread that opens such a range has an entry for each domain, and only that thread writes to
 * it. A thread that never opens one has no entry, and only looks at an empty slot. */
#include "step_range.h"

#include "../core/glob.h"
#include "../steps/steps.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define GLOB_BYTES 256u
#define ANSWERS 4096u
#define TRACKED 1024u /* threads times domains with a step range open */
#define TRACK_PROBES 16u
#define TRACK_DEPTH 64u

/* Two texts are used in turn, because a late thread may still read the last one. Always ended by a NUL. */
static char globs[2][GLOB_BYTES];
static unsigned current;
static _Atomic(const char *) glob;

/* Answers by string id: generation << 32 | id << 1 | answer. */
static _Atomic uint64_t answers[ANSWERS];

struct track {
	_Atomic uint64_t key; /* 0 = free */
	uint64_t bits;	      /* the innermost open range is bit 0; 1 = its name matches */
	uint32_t depth;
	_Atomic uint32_t era;
};
static struct track tracks[TRACKED];
static _Atomic uint32_t era;

void step_range_set(const char *wanted)
{
	atomic_store_explicit(&glob, NULL, memory_order_release);
	if (!wanted || !*wanted)
		return;
	size_t n = strnlen(wanted, GLOB_BYTES - 1);
	current ^= 1;
	memcpy(globs[current], wanted, n);
	globs[current][n] = 0;
	for (uint32_t i = 0; i < ANSWERS; i++)
		atomic_store_explicit(&answers[i], 0, memory_order_relaxed);
	/* From here on entries of earlier captures count as empty. */
	atomic_fetch_add_explicit(&era, 1, memory_order_relaxed);
	atomic_store_explicit(&glob, globs[current], memory_order_release);
}

int step_range_wanted(void)
{
	return atomic_load_explicit(&glob, memory_order_relaxed) != NULL;
}

int step_range_matches(const char *name, size_t bytes, uint32_t generation, uint32_t id)
{
	const char *pattern = atomic_load_explicit(&glob, memory_order_acquire);
	if (!pattern)
		return 0;
	if (!generation || !id || id >> 31)
		return glob_match(pattern, name, bytes);
	_Atomic uint64_t *answer = &answers[id % ANSWERS];
	uint64_t key = (uint64_t)generation << 32 | (uint64_t)id << 1;
	uint64_t kept = atomic_load_explicit(answer, memory_order_relaxed);
	if ((kept & ~1ull) == key)
		return (int)(kept & 1);
	int matches = glob_match(pattern, name, bytes);
	atomic_store_explicit(answer, key | (uint64_t)(matches != 0), memory_order_relaxed);
	return matches;
}

/* The calling thread's entry for a domain. NULL where it has none and `make` is 0, or where there is no room. */
static struct track *track_of(uint64_t domain, int make)
{
	uint64_t key = ((uint64_t)(uintptr_t)pthread_self() ^ domain * 0x9e3779b97f4a7c15ull) | 1;
	uint32_t at = (uint32_t)((key * 0xd6e8feb86659fd93ull) >> 40) % TRACKED;
	for (uint32_t i = 0; i < TRACK_PROBES; i++, at = (at + 1) % TRACKED) {
		struct track *t = &tracks[at];
		uint64_t held = atomic_load_explicit(&t->key, memory_order_relaxed);
		if (!held && !make)
			return NULL;
		if (held != key && (held || !atomic_compare_exchange_strong_explicit(
						    &t->key, &held, key, memory_order_relaxed, memory_order_relaxed)))
			continue;
		uint32_t now = atomic_load_explicit(&era, memory_order_relaxed);
		if (atomic_load_explicit(&t->era, memory_order_relaxed) != now) {
			t->bits = 0;
			t->depth = 0;
			atomic_store_explicit(&t->era, now, memory_order_relaxed);
		}
		return t;
	}
	return NULL;
}

void step_range_push(uint64_t domain, int matches)
{
	struct track *t = track_of(domain, matches);
	if (!t || (!matches && !t->depth))
		return;
	/* Deeper ranges than TRACK_DEPTH are only counted. */
	if (t->depth++ < TRACK_DEPTH)
		t->bits = t->bits << 1 | (uint64_t)(matches != 0);
}

int step_range_pop(uint64_t domain)
{
	struct track *t = track_of(domain, 0);
	if (!t || !t->depth || --t->depth >= TRACK_DEPTH)
		return 0;
	int matched = (int)(t->bits & 1);
	t->bits >>= 1;
	/* Only the outermost of nested matching ranges counts. */
	return matched && !t->bits;
}
