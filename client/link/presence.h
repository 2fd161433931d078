/* presence.h - is the agent in a process that is not registered? Seen through /proc, as far as its owner allows. */
#ifndef PROFD_CLIENT_LINK_PRESENCE_H
#define PROFD_CLIENT_LINK_PRESENCE_H

#include "connection.h"

#include <stddef.h>
#include <stdint.h>

enum presence {
	PRESENCE_UNKNOWN, /* it is gone, or not ours to look at */
	PRESENCE_ABSENT,
	PRESENCE_ASLEEP, /* loaded; nothing that it records has shown up */
	PRESENCE_AWAKE,	 /* its thread runs: it registers, or tries to */
};

enum presence presence_of(int64_t pid);

/* Waits a moment for those that are about to register: they have just started, or their daemon has. Returns at once where nothing
 * speaks for it. */
void presence_await(struct daemons *daemons, const int64_t *pids, size_t count);

/* Says of a process "without the agent" what is true of it. */
void presence_explain(struct failure *failure);

#endif
