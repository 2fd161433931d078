/* decline.h - why what the daemon asks for cannot be: a capture, or other collectors for the one under way. Agent's thread. */
#ifndef PROFD_AGENT_DECLINE_H
#define PROFD_AGENT_DECLINE_H

#include "core/own.h"
#include "../proto/message.h"

#include <stdint.h>

OWN const char decline_blind[]; /* of epochs whose begins are not to be seen */
OWN const char decline_over[];	/* the sentence for what comes behind the schedule's end */

/* The sentence, which lasts until the next call, and its enum error; NULL: it can be. */
const char *decline_arm(const struct message_arm *arm, uint32_t *ret_error);
const char *decline_switch(const struct message_arm *arm, uint32_t *ret_error);

/* Tells the daemon. */
void decline_send(uint64_t capture, uint32_t error, const char *sentence);

#endif
