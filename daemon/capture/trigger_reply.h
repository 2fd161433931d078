/* trigger_reply.h - what is told of a trigger: rows and the end of its reply, the catalogue's note, the audit's lines. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_TRIGGER_REPLY_H
#define PROFD_DAEMON_CAPTURE_TRIGGER_REPLY_H

#include "trigger.h"

/* A row for whoever follows; taken over. */
void reply_row(struct trigger *trigger, cJSON *row);
/* The row of one target, to be sent by reply_row(). `pid` where there is no process. */
cJSON *reply_target(const struct trigger *trigger, const struct process *process, int32_t pid, enum error error);
/* Tells of a target that is refused, and remembers the first one. The sentence is that of an error that speaks of one pid; `detail`, an
 * agent's own, is used where the error has none. */
void reply_refused(struct trigger *trigger, const struct process *process, int32_t pid, enum error error,
		   const char *detail);
/* Once, as soon as one target is armed: the trigger's number. */
void reply_accepted(struct trigger *trigger);
/* Ends the reply of a trigger whose targets are to come, when nobody follows it. */
void reply_waiting(struct trigger *trigger);
/* Ends the reply, if anybody still follows. */
void reply_end(struct trigger *trigger);

/* Keeps the request's text for reply_note(). */
void reply_prepare_note(struct trigger *trigger, const char *text, size_t n);
/* Catalogue and audit hear of it once the agents have answered: a disk at work would stand between ARM and ARMED. */
void reply_note(struct trigger *trigger);
/* The processes that a trigger waited for will not come. The audit log hears of it if the trigger has recorded
 * nothing. */
void reply_note_end(const struct trigger *trigger);
/* The audit's line of its own for one target of several. */
void reply_audit_target(const struct trigger *trigger, const struct identity *target, enum error error);

#endif
