/* due.h - what the agent's thread does by itself while something is armed or recorded, and when. The agent's thread only. */
#ifndef PROFD_AGENT_DUE_H
#define PROFD_AGENT_DUE_H

#include <stdint.h>

/* Does what is due: collectors on, drain, timers. Returns the CLOCK_MONOTONIC ns of the next thing to do, UINT64_MAX for none. */
uint64_t due_work(void);

#endif
