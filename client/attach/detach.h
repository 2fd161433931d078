/* detach.h - has an agent leave its process. */
#ifndef PROFD_CLIENT_ATTACH_DETACH_H
#define PROFD_CLIENT_ATTACH_DETACH_H

#include "client/link/connection.h"

#include <stdint.h>

/* By the daemon that the agent is connected to, with the rights that a trigger needs. Returns once no thread of it is left: an exit code,
 * after its sentence. */
int detach_agent(struct daemons *daemons, int64_t pid);

#endif
