/* decline.h - why the agent declines a capture that the daemon asks for, or other collectors for the capture under way.
 * Agent's thread. */
#ifndef PROFD_AGENT_DECLINE_H
#define PROFD_AGENT_DECLINE_H

#include "core/own.h"
#include "../proto/message.h"

#include <stdint.h>

OWN const char decline_blind[]; /* the sentence where the begin of an epoch cannot be seen */
OWN const char decline_over[];	/* the sentence for an ARM that comes after the schedule's end */

/* Why it is declined: the sentence, which lasts until the next call, and its enum error. NULL: it is not declined. */
const char *decline_arm(const struct message_arm *arm, uint32_t *ret_error);
const char *decline_switch(const struct message_arm *arm, uint32_t *ret_error);

/* Tells the daemon. */
void decline_send(uint64_t capture, uint32_t error, const char *sentence);

#endif
