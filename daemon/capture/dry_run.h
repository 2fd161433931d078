/* dry_run.h - what a trigger would do and cost: the checks are those of a trigger, and where that would arm a process, the catalogue is
 * asked what such a recording has cost it before. Nothing is armed, counted or noted. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_DRY_RUN_H
#define PROFD_DAEMON_CAPTURE_DRY_RUN_H

#include "proto/message.h"

#include <stdbool.h>

struct conn;
struct process;
struct trigger;
struct trigger_request;

/* Serves op "estimate". Takes over what `wanted` owns. */
void dry_run_start(struct conn *conn, struct trigger_request *wanted);

/* For the trigger's own checks (trigger_targets.c). This process would be sent `arm`; false: it would be refused all the same. */
bool dry_run_arm(struct trigger *trigger, const struct process *process, const struct message_arm *arm);
/* It would be waited for until it has shown steps. */
void dry_run_wait(struct trigger *trigger, const struct process *process);

#endif
