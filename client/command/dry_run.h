/* dry_run.h - `profd trigger --dry-run`: what the trigger would do and cost. */
#ifndef PROFD_CLIENT_COMMAND_DRY_RUN_H
#define PROFD_CLIENT_COMMAND_DRY_RUN_H

#include "client/link/connection.h"
#include "client/verbs/arguments.h"

/* `requests` are those of the trigger. Returns the exit code. */
int dry_run(const struct arguments *arguments, struct daemons *daemons, cJSON *const requests[DAEMONS_MAX]);

#endif
