/* copies.h - other copies of the agent in this process. After a fork the parent's copy is dead in the child: it has no
 * thread there. But its functions are still where it put them (slots of torch's libraries, NVTX's tables), and do
 * nothing. A copy that `profd attach` brings in replaces them by its own. Only one copy works in a process
 * (claim.h). */
#ifndef PROFD_AGENT_CORE_COPIES_H
#define PROFD_AGENT_CORE_COPIES_H

#include <stdbool.h>

/* Finds the other copies. Called by the thread of an attached copy, before it puts functions anywhere; only the first
 * call looks. The copies stay where they are. */
void copies_find(void);
/* Is the code at this address that of another copy? */
bool copies_have(const void *at);

#endif
