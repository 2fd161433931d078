/* connection.h - one peer: an agent or a client. Packets are read and queued; what they say is for the rooms above
 * (calls.h). Loop's thread. */
#ifndef PROFD_DAEMON_CORE_CONNECTION_H
#define PROFD_DAEMON_CORE_CONNECTION_H

#include "proto/errors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

struct quota_user;
struct server;

/* What may wait for a peer that does not read; a list is produced as it is read. */
#define CONN_QUEUE_BYTES (256u << 10)
#define CONN_QUEUE_LOW (32u << 10)
/* How long a peer may take to say what it is. */
#define CONN_IDENTIFY_NS 10000000000ull

enum conn_kind { CONN_UNKNOWN, CONN_CLIENT, CONN_AGENT };

struct conn {
	struct server *server;
	struct conn *next, *previous;
	uv_poll_t poll;
	int fd;
	int events; /* that are polled for */
	/* The peer's identity is decided when it connects, and stays. */
	struct ucred peer;
	bool admin;		/* root, or of the group profd; only in the daemon's own pid namespace */
	uint64_t pid_namespace; /* a client's, in which it gives and gets pids; see namespaces.h */
	bool located;		/* pid_namespace is known */
	struct quota_user *user;
	bool counted; /* as one of the user's connections; else it is only told why it has no place: */
	enum error refusal_error;
	char *refusal;	    /* owned */
	bool agent_counted; /* and as one of the user's agents */
	enum conn_kind kind;
	uint64_t since; /* CLOCK_MONOTONIC ns */
	bool closed;	/* closed, but there are still references */
	unsigned references;
	struct packet *first, *last;
	size_t queued; /* bytes */

	/* Belongs to the room that serves the connection: an agent's process, a client's request. */
	void *owner;
	void (*free_owner)(void *owner); /* called when the last reference is gone; NULL: it is not the connection's */

	/* A client's request that is being served; it is not read from meanwhile. */
	bool busy;
	bool follows;			    /* it only follows what goes on: an ending daemon does not wait for it */
	void (*produce)(struct conn *conn); /* makes more rows when the queue runs low */
	bool fetching;			    /* it waits for them: `produce` is not called meanwhile */
};

/* A connection that was accepted; takes fd. With an error the peer is only told why it has no place (`refusal`,
 * copied), in a message of its own kind, after its first packet. NULL on failure: fd is closed then. */
struct conn *conn_new(struct server *server, int fd, const struct ucred *peer, bool admin, struct quota_user *user,
		      enum error error, const char *refusal);
/* Queues a packet (copied; fd is duplicated where not -1). A peer that lets too much wait is closed. */
void conn_send(struct conn *conn, const void *packet, size_t n, int fd);
void conn_close(struct conn *conn);
/* Reads what an agent's connection still holds, then closes it: its process is gone, whoever else may hold the socket. */
void conn_drain(struct conn *conn);
struct conn *conn_ref(struct conn *conn);
void conn_unref(struct conn *conn);
/* May this client see and trigger what belongs to `uid`? */
bool conn_may(const struct conn *conn, uid_t uid);
/* Polls for the events that are wanted now. Call after `busy` has changed, or the daemon begins to end. */
void conn_poll_adjust(struct conn *conn);

#endif
