/* audit.h - the audit log: who did what to whose process or capture, when, and with what result. Each action is a line
 * in the journal, and a row in the catalogue (`profd audit`). If one user causes too many lines in a minute, the rest
 * are counted and written as one line. Loop's thread; the catalogue's thread writes the lines. */
#ifndef PROFD_DAEMON_CATALOGUE_AUDIT_H
#define PROFD_DAEMON_CATALOGUE_AUDIT_H

#include "proto/errors.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct conn;
struct server;
struct quota_user;

struct audit_entry {
	struct ucred by;
	struct quota_user *user; /* NULL: not limited */
	bool trusted;		 /* root, the group profd: not limited */
	bool refused;
	const char *action, *outcome; /* static words */
	const char *subject;	      /* a capture, a trigger, a sentence; copied */
	pid_t target_pid;	      /* as the daemon sees it; 0: none */
	uid_t target_uid;	      /* its owner; (uid_t)-1: not known, or no target */
};

void audit_put(struct server *server, const struct audit_entry *entry);
/* The same for what a connection's peer did. */
void audit_done(struct conn *conn, const char *action, const char *subject, const char *outcome, pid_t target_pid,
		uid_t target_uid);
void audit_refused(struct conn *conn, const char *action, const char *subject, enum error error, pid_t target_pid,
		   uid_t target_uid);

/* Writes what was left out, for each user whose minute is over. For the tick; at the end with `now` UINT64_MAX. */
void audit_tick(struct server *server, uint64_t now);
/* Is there something left out that the tick has to write? */
bool audit_waits(const struct server *server);
/* The owner of a process that is not registered; (uid_t)-1: there is no such process. */
uid_t audit_owner(pid_t pid);

#endif
