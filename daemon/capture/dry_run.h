/* dry_run.h - what a trigger would do and cost. The checks are those of a trigger. For a process that would be armed,
 * the catalogue tells what such a recording has cost it before. Nothing is armed or counted, and only some refusals are
 * written into the audit log. Loop's thread. */
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

/* For the trigger's own checks (trigger_targets.c). This process would be sent `arm`. False: it would be refused after
 * all. */
bool dry_run_arm(struct trigger *trigger, const struct process *process, const struct message_arm *arm);
/* The trigger would wait until this process has shown steps. */
void dry_run_wait(struct trigger *trigger, const struct process *process);

#endif
