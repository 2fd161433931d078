/* container.h - a process in a container, as far as it can be seen from outside. */
#ifndef PROFD_CLIENT_DOCTOR_CONTAINER_H
#define PROFD_CLIENT_DOCTOR_CONTAINER_H

#include "client/ui/table.h"

#include <stdbool.h>
#include <stdint.h>

/* Of a process that lives in a container (another pid or mount namespace): adds rows on whether the daemon's socket and
 * the preloaded agent are to be found in there. */
void inspect_container(int64_t pid, struct table *checks);
/* Do the process's clocks have an offset (a time namespace)? Then the daemon refuses it. */
bool inspect_clocks(int64_t pid);
/* Of a program of 32 bits: adds a row and returns true. */
bool inspect_class(int64_t pid, struct table *checks);

#endif
