/* copies.h - other copies of the agent in this process. A fork leaves them behind dead: nothing of theirs runs, but where they had put their
 * functions (slots of torch's libraries, NVTX's tables) those still stand in the child, and do nothing. A copy that `profd attach` brings in
 * puts its own in their place. Whoever works here holds the process (claim.h), so no other copy does. */
#ifndef PROFD_AGENT_CORE_COPIES_H
#define PROFD_AGENT_CORE_COPIES_H

#include <stdbool.h>

/* Looks for them: once, by the thread of a copy that has been attached, before it puts functions anywhere. They stay where they are. */
void copies_find(void);
/* Is this address code of one of them? */
bool copies_have(const void *at);

#endif
