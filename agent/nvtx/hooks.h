/* hooks.h - the functions that are put into the objects' slots (nvtx_hooks of objects.h is in hooks.c), and what the
 * collector sets for them. */
#ifndef PROFD_AGENT_NVTX_HOOKS_H
#define PROFD_AGENT_NVTX_HOOKS_H

#include <stdint.h>

/* The agent's thread: a new recording is about to begin: forgets start/end ranges of earlier ones. */
void nvtx_hooks_prepare(void);

/* The agent's thread, after the slots are NULL again and while the sink still takes records: writes the open start/end
 * ranges, clipped at `end` (CLOCK_MONOTONIC ns). The size of the table bounds its time to some ms. */
void nvtx_hooks_clip(uint64_t end);

#endif
