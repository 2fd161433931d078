/* trigger.h - what `profd trigger` prints at its end. */
#ifndef PROFD_CLIENT_COMMAND_TRIGGER_H
#define PROFD_CLIENT_COMMAND_TRIGGER_H

#include "../options.h"
#include "client/link/follow.h"

/* The head of the summary (over all ranks where there are several) and the next commands to try; or JSON, or CSV. The
 * daemons of the watch must be idle. Sorts its captures by rank, pid and cycle. */
void trigger_print(struct watch *watch, enum output_format format);

#endif
