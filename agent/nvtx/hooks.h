/* hooks.h - the functions that stand in the objects' slots (nvtx_hooks of objects.h is here too), and what the
 * collector sets for them. */
#ifndef PROFD_AGENT_NVTX_HOOKS_H
#define PROFD_AGENT_NVTX_HOOKS_H

#include <stdint.h>

/* The agent's thread: a new recording is about to begin; start/end ranges of earlier ones are forgotten. */
void nvtx_hooks_prepare(void);

/* The agent's thread, after the slots are NULL again and while the sink still takes records: writes the start/end
 * ranges that are open as clipped at `end` (CLOCK_MONOTONIC ns). Bounded by the size of the table, some ms. */
void nvtx_hooks_clip(uint64_t end);

#endif
