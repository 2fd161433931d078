/* orphans.h - captures that another daemon has begun, and captures that this one leaves to the next. Loop's thread; the
 * first two functions are called before it runs. */
#ifndef PROFD_DAEMON_CAPTURE_ORPHANS_H
#define PROFD_DAEMON_CAPTURE_ORPHANS_H

#include "proto/message.h"

#include <stdint.h>

struct capture;
struct process;
struct server;

/* Renames files that were finished except for their name when an earlier daemon ended, and makes a file for each
 * capture that has only a note. Before the catalogue is compared with the files. */
void orphans_complete(struct server *server);
/* Finds the partial files that an earlier daemon left. */
void orphans_scan(struct server *server);
/* OFFER: 0, or a negative errno where the segment is not wanted. */
int orphan_offered(struct process *process, const struct message_offer *offer, int fd);
/* The process has just registered, or has offered a segment. If it has offered all its segments, none of its orphans
 * waits any longer. */
void orphans_offered(struct process *process);
/* Ends an orphan of which nothing was recorded. Where out of memory, it stays one. */
void orphan_forget(struct capture *capture);
/* Ends an orphan whose process is gone or whose time is over. */
void orphan_tick(struct capture *capture, uint64_t now);
/* For a capture that is RUNNING: writes the records that have come into its file, and leaves the rest to the agent and
 * the next daemon. */
void capture_hand_off(struct capture *capture);

#endif
