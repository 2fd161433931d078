/* accept.h - takes new connections: finds out who the peer is, what it may do, and whether there is a place. Loop's
 * thread. */
#ifndef PROFD_DAEMON_CORE_ACCEPT_H
#define PROFD_DAEMON_CORE_ACCEPT_H

struct server;

/* Begins to take connections from server->listen_fd (server->listener is initialised). */
void accept_start(struct server *server);
/* For the tick: begins again where descriptors had run out. */
void accept_resume(struct server *server);
void accept_stop(struct server *server);

#endif
