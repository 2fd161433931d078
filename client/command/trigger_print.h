/* trigger_print.h - what `profd trigger` prints at its end. */
#ifndef PROFD_CLIENT_COMMAND_TRIGGER_PRINT_H
#define PROFD_CLIENT_COMMAND_TRIGGER_PRINT_H

#include "client/link/follow.h"
#include "client/ui/table.h"

/* The head of the summary (over all ranks where there are several) and the next commands to try; or JSON, or CSV. The
 * daemons must be idle. Sorts its captures by rank, pid and cycle. */
void trigger_print(struct follow *follow, enum output_format format);

#endif
