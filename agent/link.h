/* link.h - the agent's thread, and its connection to one daemon. */
#ifndef PROFD_AGENT_LINK_H
#define PROFD_AGENT_LINK_H

#include <stdint.h>

/* Body of the agent's thread. Returns once the agent is to leave the process. Then nothing is recorded, hooked or
 * connected any more. */
void link_main(void);

/* The agent's thread gives up what is under way, and stops (life_stop). */
void link_stop(void) __attribute__((noreturn));

/* A part of torch is being loaded: the agent's thread begins to look for the other parts. Any thread. */
void link_torch_coming(void);

/* Sends a message to the daemon, with a segment's descriptor where fd is not -1. 0, or a negative errno where there is
 * no daemon or it does not read. Agent's thread. */
int link_send(const void *message, int fd);
/* Naps for a moment, in which the daemon may free a chunk. Returns 0 without a nap where the time is up, or where the
 * next message says that the daemon wants no more of this capture and so frees no more chunks. That message is left to
 * be read. Agent's thread. */
int link_wait_for_room(uint64_t capture, uint64_t deadline);

#endif
