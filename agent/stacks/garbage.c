/* garbage.c - see garbage.h. From CPython 3.11 on the first interpreter lies within _PyRuntime, in the data of a
 * library that stays mapped, so it is read in place. In earlier releases it lies in the heap and is freed when Python
 * ends, so it is copied by a system call, which fails for unmapped memory. */
#include "garbage.h"
#include "interpreter.h"

#include "../core/peek.h"

#include <stdatomic.h>
#include <string.h>

/* The statistics, and the flag after them that the collector sets while it runs. */
#define FLAG ((size_t)PYTHON_GENERATIONS * PYTHON_GENERATION_WORDS)
#define WORDS (FLAG + 1)
/* Reads of memory that lead to the thread that holds the lock, at most. */
#define READS 16
/* The first interpreter begins before this offset in _PyRuntime: at some 90,000 bytes in known releases. */
#define RUNTIME_BYTES (1u << 20)
#define MINOR_WITHIN 11
/* A real count is always smaller. */
#define COUNT_MOST (1ull << 48)

/* Written by the agent's thread; where the statistics lie comes last. */
static struct {
	const uint64_t *head; /* head of the list of interpreters, in _PyRuntime */
	uint64_t interpreter;
	bool within; /* _PyRuntime */
	struct python python;
	const uint64_t *_Atomic at;
} garbage;

static bool read_words(const uint64_t *at, uint64_t *words)
{
	if (garbage.within) {
		for (unsigned i = 0; i < WORDS; i++)
			words[i] = __atomic_load_n(at + i, __ATOMIC_RELAXED);
		return true;
	}
	return peek_bytes((uintptr_t)at, words, WORDS * sizeof *words) == (long)(WORDS * sizeof *words);
}

struct garbage garbage_look(void)
{
	const uint64_t *at = atomic_load_explicit(&garbage.at, memory_order_acquire);
	struct garbage ret = {0};
	uint64_t words[WORDS];
	/* If another interpreter has been made since, or this one has ended, it is not known whose figures these
	 * are. */
	if (!at || __atomic_load_n(garbage.head, __ATOMIC_RELAXED) != garbage.interpreter || !read_words(at, words))
		return ret;
	/* An int; the rest of the word is a gap. */
	int32_t flag;
	memcpy(&flag, &words[FLAG], sizeof flag);
	ret.known = flag == 0 || flag == 1;
	ret.running = flag == 1;
	for (unsigned i = 0; i < PYTHON_GENERATIONS; i++) {
		const uint64_t *generation = words + (size_t)i * PYTHON_GENERATION_WORDS;
		ret.collections[i] = generation[0];
		ret.collected += generation[1];
		ret.known &= generation[0] < COUNT_MOST && generation[1] < COUNT_MOST && generation[2] < COUNT_MOST;
	}
	return ret;
}

struct garbage garbage_since(const struct garbage *before, const struct garbage *now)
{
	struct garbage ret = {.known = before->known && now->known && now->collected >= before->collected,
			      .collected = now->collected - before->collected};
	for (unsigned i = 0; i < PYTHON_GENERATIONS; i++) {
		ret.collections[i] = now->collections[i] - before->collections[i];
		ret.known &= ret.collections[i] <= UINT32_MAX;
	}
	return ret.known ? ret : (struct garbage){0};
}

void garbage_find(void)
{
	struct python *python = &garbage.python;
	char sentence[248];
	atomic_store_explicit(&garbage.at, NULL, memory_order_release);
	if (interpreter_find(python, sentence, sizeof sentence) < 0 || python->offsets.interpreter_collections < 0 ||
	    interpreter_prove(python, sentence, sizeof sentence) < 0)
		return;
	uint64_t head = python->runtime + (uint64_t)python->offsets.runtime_head;
	uint64_t interpreter = python_word(&python->memory, head);
	/* A new interpreter is put at the head of the list; so there must be no other one. */
	if (!interpreter || interpreter % sizeof(uint64_t) ||
	    python_word(&python->memory, interpreter + (uint64_t)python->offsets.interpreter_next))
		return;
	garbage.within = python->minor >= MINOR_WITHIN;
	if (garbage.within && (interpreter < python->runtime || interpreter - python->runtime > RUNTIME_BYTES))
		return;
	garbage.head = (const uint64_t *)(uintptr_t)head;
	garbage.interpreter = interpreter;
	atomic_store_explicit(
		&garbage.at,
		(const uint64_t *)(uintptr_t)(interpreter + (uint64_t)python->offsets.interpreter_collections),
		memory_order_release);
}

uint32_t garbage_thread(void)
{
	struct python_thread thread;
	if (!atomic_load_explicit(&garbage.at, memory_order_relaxed))
		return 0;
	garbage.python.memory.reads_left = READS;
	return python_holder(&garbage.python, garbage.interpreter, &thread) ? interpreter_tid(&garbage.python, &thread)
									    : 0;
}
