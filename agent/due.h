/* due.h - what the agent's thread does by itself while something is armed or recorded, and when. The agent's thread only. */
#ifndef PROFD_AGENT_DUE_H
#define PROFD_AGENT_DUE_H

#include <stdint.h>

/* Does the work that is due: switches collectors on, drains, ends what has run out of time. Returns the CLOCK_MONOTONIC
 * ns of the next work, UINT64_MAX for none. */
uint64_t due_work(void);

#endif
