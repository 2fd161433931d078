/* control.h - does to the capture under way what the daemon asks for, and what a lost connection or the end of the
 * process makes necessary. The agent's own thread drives a capture; the job's step thread only ticks. */
#ifndef PROFD_AGENT_CONTROL_H
#define PROFD_AGENT_CONTROL_H

#include "../proto/message.h"
#include "../proto/segment.h"

#include <stdbool.h>
#include <stdint.h>

/* Glob of the range whose ends are the steps of the capture that is armed; "" = none. Any thread while it is armed. */
const char *control_step_range(void);

/* --- the rest: the agent's thread only --- */

/* ARM has come with a segment (taken), or `error` says why there is none (a negative errno). Sends ARMED or DECLINED through
 * link_send. */
void control_arm(const struct message_arm *arm, const struct segment *segment, int error);
/* The armed capture, if it does not record yet, begins at another step. */
void control_at_step(const struct message_at_step *m);
void control_cancel(uint64_t capture, uint32_t reason);
/* DETACH has come: the recording ends, and no other one begins. */
void control_leave(void);
/* Is the agent to leave the process now? If not, *due is lowered to the time at which to ask again. */
bool control_may_go(uint64_t *due);
/* Forgets everything before the agent leaves, as if there had been no recording. */
void control_forget(void);
/* FINISH has come: the daemon has what it wants. */
void control_finish(uint64_t capture);

/* The connection to the daemon is lost. / A daemon has answered WELCOME: it is offered the segments that earlier
 * daemons have not taken. */
void control_daemon_lost(void);
void control_daemon_found(void);
/* The agent's thread is about to stop for good, and may make no system call: nothing is recorded any more. */
void control_abandon(void);
/* How many segments would be offered. */
uint32_t control_orphans(void);

/* The process exits: end the recording, wait for the agent's thread at most `wait` ns. Called by the exiting thread. */
void control_exit(uint64_t wait);

/* In a fork child, on the thread that forked: puts memory where that thread may still write. */
void control_in_child(void);

#endif
