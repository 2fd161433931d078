/* trigger_export.h - `profd trigger --output`: a file for each capture. */
#ifndef PROFD_CLIENT_COMMAND_TRIGGER_EXPORT_H
#define PROFD_CLIENT_COMMAND_TRIGGER_EXPORT_H

#include "client/link/follow.h"
#include "client/verbs/arguments.h"

/* Exports what has finished, and adds "output", the path, to each capture. Does nothing without --output. Returns an
 * exit code, after its sentences. */
int trigger_export(const struct arguments *a, struct follow *follow);

#endif
