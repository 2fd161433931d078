/* presence.h - is the agent in a process that is not registered? /proc tells it, as far as the process's owner allows. */
#ifndef PROFD_CLIENT_LINK_PRESENCE_H
#define PROFD_CLIENT_LINK_PRESENCE_H

#include "connection.h"

#include <stddef.h>
#include <stdint.h>

enum presence {
	PRESENCE_UNKNOWN, /* it is gone, or not ours to look at */
	PRESENCE_ABSENT,
	PRESENCE_ASLEEP,   /* loaded; nothing that it records has shown up */
	PRESENCE_DETACHED, /* loaded; it has run, and has left */
	PRESENCE_FORKED,   /* loaded before a fork, which it does not outlive; another copy can be brought in */
	PRESENCE_AWAKE,	   /* its thread runs: it registers, or tries to */
};

enum presence presence_of(int64_t pid);
/* Is there a thread that calls CUPTI for the agent? It may outlive the agent for as long as a call takes. */
bool presence_lingers(int64_t pid);
/* Is there no agent in it that runs, or that waits for something to record? */
bool presence_is_missing(int64_t pid);

/* Waits a moment for processes that are about to register, because they or their daemon have just started. Returns at
 * once if there are none. */
void presence_await(struct daemons *daemons, const int64_t *pids, size_t count);

/* Puts the true reason into a failure that says "without the agent". */
void presence_explain(struct failure *failure);

#endif
