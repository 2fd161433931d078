/* garbage.h - how often Python's collector of garbage has run: the interpreter's own statistics, read from its memory at a boundary. Nothing of
 * Python's is called, and its lock is not taken. */
#ifndef PROFD_AGENT_STACKS_GARBAGE_H
#define PROFD_AGENT_STACKS_GARBAGE_H

#include "proto/python/offsets.h"

#include <stdbool.h>
#include <stdint.h>

struct garbage {
	bool known;
	uint64_t collections[PYTHON_GENERATIONS]; /* from the youngest generation on */
	uint64_t collected;			  /* objects that were freed */
	bool running;				  /* a collection runs now; CPython counts it just before its end */
};

/* Looks for the statistics. They stay unknown if the process has no Python, a Python that we do not know or could not check, or more than one
 * interpreter. The agent's thread. */
void garbage_find(void);
/* Reads the statistics now. Any thread. */
struct garbage garbage_look(void);
/* The collections between `before` and `now`. They are known only if both are known and no count is lower in `now`. */
struct garbage garbage_since(const struct garbage *before, const struct garbage *now);
/* The kernel's id of the thread that holds Python's lock; 0: no thread holds it, or the thread is not known. The collector holds the lock while
 * it runs. The agent's thread. */
uint32_t garbage_thread(void);

#endif
