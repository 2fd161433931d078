/* switching.h - other collectors in mid-recording (`profd set`): a capture that records ends with a step, and goes on
 * as another capture of the same trigger. The client is told of each capture when its agent has switched. Loop's
 * thread. */
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
	uint32_t only; /* instead of the present collectors; 0 = keep these */
	uint32_t on, off;
	uint32_t stacks_rate; /* 0 = as it is */
};

/* Serves op "set" for captures under way, which its client may change: sends the rows, and the end when all agents have
 * answered. */
void switching_serve(struct conn *conn, struct capture *const *captures, size_t count,
		     const struct switching_wish *wish);
/* Captures that the trigger arms from now on begin with these collectors. */
void switching_later(struct trigger *trigger, const struct switching_wish *wish);
/* The agent has switched; `capture` is the one that the ARM named. */
void switching_done(struct capture *capture, const struct message_switched *message);
/* The switch fails: `capture`, which was to follow, has been declined or dropped, or has ended without a step. Does
 * nothing if nobody waits for it. */
void switching_failed(struct capture *capture, enum error error, const char *sentence);
/* A capture has ended after so many steps, because its agent was told to switch: the remaining steps belong to the
 * capture that follows it. */
void switching_over(struct capture *capture, uint32_t steps);

#endif
