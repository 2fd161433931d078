/* messages.h - an agent's messages about its captures, and its end. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_MESSAGES_H
#define PROFD_DAEMON_CAPTURE_MESSAGES_H

#include "proto/message.h"

struct capture;
struct process;

/* Messages of the agent that name a capture. */
void capture_message(struct process *process, const union message_any *message, int fd);
/* What the agent has told about a collector. */
void capture_told(struct capture *capture, const struct message_collector *message);
/* Its connection has ended. */
void capture_process_gone(struct process *process);

#endif
