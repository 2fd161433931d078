/* registry.h - the processes that carry an agent and are connected. Key: pid as the daemon sees it, and start time. Loop's
 * thread. */
#ifndef PROFD_DAEMON_CAPTURE_REGISTRY_H
#define PROFD_DAEMON_CAPTURE_REGISTRY_H

#include "proto/message.h"
#include "proto/status.h"
#include "proto/base/facts.h"

/* The registry knows the pids of this many generations of ancestors. */
#define FAMILY_ANCESTORS 8

struct conn;
struct server;

struct process {
	struct server *server;
	struct process *next, *previous;
	struct conn *conn;
	struct capture *captures; /* by next_of_process, the youngest first */
	struct identity who;
	struct message_hello hello;
	struct status_page *page;
	struct watch *watch;	/* notices its death; NULL where the kernel has no pidfd (before 5.3): then EOF shows
				 * it */
	int filters;		/* seccomp filters when it registered; negative: not known */
	bool silent;		/* it has left an ARM unanswered, and has sent nothing since */
	unsigned afters;	/* AFTER messages that may come */
	uint32_t offers_due;	/* segments that it has announced, and has not offered yet */
	uint64_t letting_go;	/* a capture that this daemon does not know, and that the agent was told to end; 0 =
				 * none */
	uint64_t serial;	/* order of registration */
	uint64_t registered_at; /* CLOCK_REALTIME ns */
	pid_t ancestors[FAMILY_ANCESTORS]; /* at the time of registration, the parent first; 0 ends the list */
};

/* A packet of an agent, already checked; the caller closes fd. */
void registry_message(struct conn *conn, const union message_any *message, int fd);
/* The agent's connection has ended. */
void registry_gone(struct process *process);

/* The process that has this pid in the daemon's own pid namespace. */
struct process *registry_find(struct server *server, pid_t pid);
/* The process that this client knows by the pid. If there are several (an agent may have shown another process's namespace), one that the
 * client may see. */
struct process *registry_find_for(const struct conn *conn, pid_t pid);
/* The pid by which `viewer`, a pid namespace, knows the process; 0 where it cannot see it. */
pid_t registry_visible_pid(const struct process *process, uint64_t viewer);
/* Why a client's pid cannot be served: NOT_YOURS, NO_AGENT, NO_PROCESS or NO_TARGET. */
enum error registry_missing(const struct conn *conn, pid_t pid);
/* Has it installed a seccomp filter since it registered? Then its agent must not be woken: any system call may end the process. */
bool registry_has_new_filter(const struct process *process);
extern const char registry_filter_sentence[];
/* Has one of its threads a seccomp filter of its own? Reads a file for each thread. */
bool registry_has_confined_thread(const struct process *process);

#endif
