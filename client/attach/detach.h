/* detach.h - has an agent leave its process. */
#ifndef PROFD_CLIENT_ATTACH_DETACH_H
#define PROFD_CLIENT_ATTACH_DETACH_H

#include "client/link/connection.h"

#include <stdint.h>

/* By the daemon that the agent is connected to, with the rights that a trigger needs. Returns once no thread of it is left; false: it is
 * not gone, *failure says why. */
bool detach_tried(struct daemons *daemons, int64_t pid, struct failure *failure);
/* The same; an exit code, after its sentence. */
int detach_agent(struct daemons *daemons, int64_t pid);

#endif
