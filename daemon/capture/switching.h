/* switching.h - other collectors in mid-recording (`profd set`): what records ends with a step, and goes on as another capture of the same
 * trigger. Each that asks is answered when its agent has done so. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_SWITCHING_H
#define PROFD_DAEMON_CAPTURE_SWITCHING_H

#include "proto/errors.h"
#include "proto/message.h"

#include <stddef.h>
#include <stdint.h>

struct capture;
struct conn;
struct trigger;

/* Bit sets of enum collector. */
struct switching_wish {
	uint32_t only; /* instead of what is recorded; 0 = beside it */
	uint32_t on, off;
	uint32_t stacks_rate; /* 0 = as it is */
};

/* Serves op "set" for captures under way, which its client may change: sends the rows, and the end when all is answered. */
void switching_serve(struct conn *conn, struct capture *const *captures, size_t count,
		     const struct switching_wish *wish);
/* What the trigger arms from now on. */
void switching_later(struct trigger *trigger, const struct switching_wish *wish);
/* Its agent has switched; `capture` is the one that ARM named. */
void switching_done(struct capture *capture, const struct message_switched *message);
/* It does not go on: the capture that was to follow has been declined or dropped, or has ended without a step. Does
 * nothing if nobody waits for it. */
void switching_failed(struct capture *capture, enum error error, const char *sentence);
/* A capture has ended as its agent was told, after so many steps: the rest is for the one that goes on. */
void switching_over(struct capture *capture, uint32_t steps);

#endif
