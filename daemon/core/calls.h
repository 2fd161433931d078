/* calls.h - the functions of the rooms above that core calls. It knows nothing else of them. daemon/run.c fills it in.
 * Loop's thread. */
#ifndef PROFD_DAEMON_CORE_CALLS_H
#define PROFD_DAEMON_CORE_CALLS_H

#include "proto/errors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;
struct quota_user;
struct server;
struct ucred;

/* How often the tick has to run for the work that is under way. */
enum pace { PACE_NONE, PACE_SLOW, PACE_FAST };

struct calls {
	/* A packet, with its descriptor: -1 = none, the caller's to close. */
	void (*agent_packet)(struct conn *conn, const char *packet, size_t n, int fd);
	void (*client_packet)(struct conn *conn, const char *packet, size_t n, int fd);
	/* The last packet of a client's reply has been sent: its request is over. */
	void (*answered)(struct conn *conn);
	/* The connection is closed. What conn->owner points to stays until conn->free_owner is called. */
	void (*closed)(struct conn *conn);
	/* A peer was refused a connection, or has lost it for what it did; `why` is a sentence about it. */
	void (*refused)(struct server *server, const struct ucred *peer, struct quota_user *user, enum error error,
			const char *why);

	void (*tick)(struct server *server, uint64_t now);
	enum pace (*pace)(const struct server *server);
	/* Something may have changed that the service's status speaks of. Cheap. */
	void (*changed)(struct server *server);
	/* SIGHUP */
	void (*reload)(struct server *server);
	/* The end has begun and will take `most_ns` at most. */
	void (*stopping)(struct server *server, uint64_t most_ns);
	/* While the daemon ends: is there something under way that it has to wait for? */
	bool (*has_work)(struct server *server);
};

#endif
