/* look.h - `profd trigger --look`: what recurs in a process, and could be its step. */
#ifndef PROFD_CLIENT_COMMAND_LOOK_H
#define PROFD_CLIENT_COMMAND_LOOK_H

#include "client/link/follow.h"
#include "client/ui/table.h"

/* Prints what recurs in the captures, each a window of time, with the option that takes it for the step, and
 * deletes them: they were made for this. Its daemons must be idle. EXIT_DONE, or an exit code after its sentence. */
int look_print(const struct follow *follow, enum output_format format);

#endif
