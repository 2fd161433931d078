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
	bool running;				  /* it runs now. What it does counts when it is nearly done */
};

/* Looks for the statistics. Where there is no Python, one that is not known or proved, or more than one interpreter, nothing is
 * known from then on. The agent's thread. */
void garbage_find(void);
/* What they are now. Any thread. */
struct garbage garbage_look(void);
/* What came since `before`; known only where both are, and nothing went back. */
struct garbage garbage_since(const struct garbage *before, const struct garbage *now);
/* The kernel's id of the thread that holds Python's lock, which the collector holds while it runs; 0: nobody does, or it is not known.
 * The agent's thread. */
uint32_t garbage_thread(void);

#endif
