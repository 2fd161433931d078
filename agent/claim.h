/* claim.h - only one copy of the agent works in a process: two copies would take the registration at the daemon from
 * each other for ever. */
#ifndef PROFD_AGENT_CLAIM_H
#define PROFD_AGENT_CLAIM_H

#include <stdbool.h>

/* Is this copy the one that works in this process? The first copy that asks works for the process's life. In a forked
 * child a copy that was loaded there asks first. `attach`: its profd_attach(), which the client calls to wake it. */
bool claim_process(int (*attach)(const char *));
/* Did another copy ask first, so that claim_process() was false here? Any thread. */
bool claim_lost(void);

#endif
