/* snapshot_print.h - what `profd snapshot` prints at its end, for programs. */
#ifndef PROFD_CLIENT_COMMAND_SNAPSHOT_PRINT_H
#define PROFD_CLIENT_COMMAND_SNAPSHOT_PRINT_H

#include "client/snapshot/snapshot.h"

void snapshot_print_csv(const struct unit *units, size_t count);
void snapshot_print_json(const struct unit *units, size_t count, const struct daemons *daemons, const char *label);

#endif
