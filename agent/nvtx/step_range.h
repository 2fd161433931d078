/* step_range.h - finds the ends of ranges that are a capture's steps (--step-range), also while nothing is written: the
 * steps of the warm-up are counted, too. */
#ifndef PROFD_AGENT_NVTX_STEP_RANGE_H
#define PROFD_AGENT_NVTX_STEP_RANGE_H

#include <stddef.h>
#include <stdint.h>

/* The agent's thread: sets the names of ranges that are steps from now on ("" or NULL: none), and forgets open
 * ranges. */
void step_range_set(const char *glob);

/* 1 while a capture looks for such ranges. One relaxed load. */
int step_range_wanted(void);

/* Does a range of this name end a step? `generation` and `id` are those of its interned name; 0 where there is none:
 * then the answer is not kept. */
int step_range_matches(const char *name, size_t bytes, uint32_t generation, uint32_t id);

/* The calling thread has pushed a range in a domain; `matches` as above. */
void step_range_push(uint64_t domain, int matches);
/* The calling thread has popped a range. 1 where it was the outermost matching one. */
int step_range_pop(uint64_t domain);

#endif
