/* forked.h - processes that were forked after the agent was loaded. They have its library and nothing of it that runs. */
#ifndef PROFD_CLIENT_LINK_FORKED_H
#define PROFD_CLIENT_LINK_FORKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is its program its parent's, by fork, and not one that it has executed? */
bool forked_since_exec(int64_t pid);
/* The parent, where it is seen that the agent's library came from there; 0: the parent has ended, or may not be looked at. */
int64_t forked_by(int64_t pid);
/* Names on standard error the children of these processes in which the agent does not live on; nothing where there are none. */
void forked_note(const int64_t *pids, size_t count);

#endif
