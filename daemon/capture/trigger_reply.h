/* trigger_reply.h - what is told about a trigger: rows and the end of its reply, the catalogue's row, lines of the
 * audit log. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_TRIGGER_REPLY_H
#define PROFD_DAEMON_CAPTURE_TRIGGER_REPLY_H

#include "trigger.h"

/* Sends a row to the client that follows, if there is one; takes `row` over. */
void reply_row(struct trigger *trigger, cJSON *row);
/* The row of one target, to be sent by reply_row(). `pid` where there is no process. */
cJSON *reply_target(const struct trigger *trigger, const struct process *process, int32_t pid, enum error error);
/* Tells of a target that is refused, and remembers the first one. The sentence is the error's own, with the pid in it;
 * where the error has none it is `detail`. */
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
/* Writes the trigger into the catalogue and the audit log, once the agents have answered: earlier, a busy disk could
 * delay the answers. */
void reply_note(struct trigger *trigger);
/* The processes that a trigger waited for will not come. Writes a line into the audit log if the trigger has armed
 * nothing. */
void reply_note_end(const struct trigger *trigger);
/* Writes a line into the audit log for one target of several. */
void reply_audit_target(const struct trigger *trigger, const struct identity *target, enum error error);

#endif
