/* announced.h - who announced an attachment, and to which process. `profd attach` announces it before it touches the
 * process, and the kernel tells who asks. An agent's HELLO also tells that it was brought in, but not by whom, and a
 * job can make that up. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_ANNOUNCED_H
#define PROFD_DAEMON_CAPTURE_ANNOUNCED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#define ANNOUNCED_MOST 256
/* A user's limit: a further announcement takes the place of that user's oldest. */
#define ANNOUNCED_USER_MOST 32

struct conn;
struct identity;
struct server;

struct announcement {
	struct ucred by; /* uid and pid as the kernel told them */
	bool admin;
	uint64_t pid_namespace; /* in which the caller gives pids */
	pid_t pid;		/* of the process, in that namespace; 0: this row is empty */
	uint64_t start_time;	/* of the process; 0: not known, as the pid is of another namespace */
	uint64_t at;		/* CLOCK_MONOTONIC ns */
};

struct announced {
	struct announcement rows[ANNOUNCED_MOST];
};

/* A client's connection announces an attachment. */
void announced_put(struct conn *conn, pid_t pid);
/* Fills `by` with whoever announced this process, which has just registered, and may do so; the latest one counts, and its
 * announcement is used up. False: nobody announced it. */
bool announced_take(struct server *server, const struct identity *who, struct ucred *by);

#endif
