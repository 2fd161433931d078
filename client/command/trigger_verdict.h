/* trigger_verdict.h - how `profd trigger` ends: what was refused or went wrong, and the exit code. */
#ifndef PROFD_CLIENT_COMMAND_TRIGGER_VERDICT_H
#define PROFD_CLIENT_COMMAND_TRIGGER_VERDICT_H

#include "client/link/follow.h"
#include "client/verbs/arguments.h"

/* Prints a sentence for whatever did not work. Returns the exit code. */
int trigger_verdict(const struct arguments *a, struct follow *follow);

#endif
