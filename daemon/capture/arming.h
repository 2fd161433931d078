/* arming.h - the beginning of a capture: its segment, ARM, the note of it (armed.h), and the agent's answer. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_ARMING_H
#define PROFD_DAEMON_CAPTURE_ARMING_H

#include "proto/errors.h"
#include "proto/message.h"
#include "daemon/core/reply.h"

struct capture;
struct process;
struct trigger;

/* Makes a segment and sends ARM, now or when its agent can take it (arming_work). NULL with an error and a sentence. */
struct capture *capture_new(struct process *process, struct trigger *trigger, const struct message_arm *arm,
			    enum error *ret_error, char sentence[SENTENCE_BYTES]);
/* An ARM that waits is sent when its agent has offered the segments that it announced, and has dropped the capture that
 * nobody knows. Before that the agent would decline, as it may still record. After some seconds the ARM is sent in any
 * case. */
void arming_work(struct capture *capture);
void arming_of_process(struct process *process);
/* Tells its follower that it is armed: its agent has said so, and its note is written, or takes too long. */
void capture_accepted(struct capture *capture);
/* A capture that is ASKED will not be recorded: tells its follower, and drops it. */
void capture_refused(struct capture *capture, enum error error, const char *sentence);
/* The agent has answered. */
void capture_armed(struct capture *capture, const struct message_armed *message);

#endif
