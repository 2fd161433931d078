/* after.h - some steps after a capture its agent tells whether the job is as fast as before. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_AFTER_H
#define PROFD_DAEMON_CAPTURE_AFTER_H

#include "proto/message.h"

struct process;

void capture_after(struct process *process, const struct message_after *message);

#endif
