/* claim.h - one copy of the agent in a process: two would take the registration at the daemon from each other for ever. */
#ifndef PROFD_AGENT_CLAIM_H
#define PROFD_AGENT_CLAIM_H

#include <stdbool.h>

/* Is this copy the one that works in this process? The first to ask is, for the process's life; in a forked child that is a copy which was
 * loaded there. `attach`: its profd_attach(), which the client calls to wake it. */
bool claim_process(int (*attach)(const char *));
/* Has another copy been told so before? Any thread. */
bool claim_lost(void);

#endif
