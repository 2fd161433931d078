/* step_range.h - finds the ends of ranges that a capture takes for its steps (--step-range), recording or not: the
 * steps of the warm-up are counted too, when nothing is written. */
#ifndef PROFD_AGENT_NVTX_STEP_RANGE_H
#define PROFD_AGENT_NVTX_STEP_RANGE_H

#include <stddef.h>
#include <stdint.h>

/* The agent's thread: which names end a step from now on ("" or NULL: none), with nothing open. */
void step_range_set(const char *glob);

/* 1 while a capture looks for such ranges. One relaxed load. */
int step_range_wanted(void);

/* Does a range of this name end a step? `generation` and `id` are those of its interned name, 0 where it has none: the
 * answer is then not kept. */
int step_range_matches(const char *name, size_t bytes, uint32_t generation, uint32_t id);

/* The calling thread has pushed a range in a domain; `matches` as above. */
void step_range_push(uint64_t domain, int matches);
/* It has popped one. 1 where that one matched. */
int step_range_pop(uint64_t domain);

#endif
