/* claim.h - one copy of the agent in a process: two would take the registration at the daemon from each other for ever. */
#ifndef PROFD_AGENT_CLAIM_H
#define PROFD_AGENT_CLAIM_H

#include <stdbool.h>

/* Is this copy the one that works in this process? The first to ask is, for the process's life. */
bool claim_process(void);
/* Has another copy been told so before? Any thread. */
bool claim_lost(void);

#endif
