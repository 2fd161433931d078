/* history_print.h - one job over its snapshots, as a table, CSV or JSON. */
#ifndef PROFD_CLIENT_COMMAND_HISTORY_PRINT_H
#define PROFD_CLIENT_COMMAND_HISTORY_PRINT_H

#include "history_names.h"

#include "client/ui/table.h"

#include <stddef.h>

/* The label of the snapshots that are shown, unless another is named. */
#define HISTORY_LABEL "snapshot"

/* Without series prints nothing but an empty list, for programs. Of one it prints all, of several a line each. */
void history_print(const struct series *series, size_t count, const char *label, enum output_format format);

#endif
