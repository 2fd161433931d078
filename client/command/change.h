/* change.h - what `rm`, `pin` and `unpin` share: each capture of the command line at the daemon that has it. */
#ifndef PROFD_CLIENT_COMMAND_CHANGE_H
#define PROFD_CLIENT_COMMAND_CHANGE_H

#include "client/verbs/arguments.h"

/* `op` is the request's and the verb's name, `done` the row that says that it was done and the key of the JSON's list. Returns an exit
 * code. */
int change_captures(struct arguments *arguments, const char *op, const char *done);

#endif
