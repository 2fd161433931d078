/* clients.h - connections of clients: the functions that core calls for them (core/calls.h), and each client's present
 * request. Loop's thread. */
#ifndef PROFD_DAEMON_OPS_CLIENTS_H
#define PROFD_DAEMON_OPS_CLIENTS_H

#include "daemon/capture/probe.h"
#include "request.h"

struct conn;
struct list_kind;

struct client {
	struct conn *conn;
	struct request request;
	struct probe probe; /* ops "doctor" and "detach": the question to the agent */
	/* A list's next page begins at `cursor`, and `left` rows may still come. */
	const struct list_kind *list;
	uint64_t cursor, left;
};

/* The client of a connection that has asked something. It lives as long as the connection has a reference. */
struct client *client_of(const struct conn *conn);
/* The client whose probe this is. */
struct client *client_of_probe(struct probe *probe);

void client_packet(struct conn *conn, const char *packet, size_t n, int fd);
void client_answered(struct conn *conn);
void client_closed(struct conn *conn);

#endif
