/* change.h - what `rm`, `pin` and `unpin` share: each capture of the command line is changed at the daemon that has it. */
#ifndef PROFD_CLIENT_COMMAND_CHANGE_H
#define PROFD_CLIENT_COMMAND_CHANGE_H

#include "client/verbs/arguments.h"

/* `op` names the request and the verb. `done` names the row that says that it was done, and the key of the list in
 * JSON. Returns an exit code. */
int change_captures(struct arguments *arguments, const char *op, const char *done);

#endif
