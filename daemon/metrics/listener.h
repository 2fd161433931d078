/* listener.h - GET /metrics on 127.0.0.1, where an administrator has asked for it: one page, nothing that could be set
 * off, a few connections, each with a deadline. Loop's thread. */
#ifndef PROFD_DAEMON_METRICS_LISTENER_H
#define PROFD_DAEMON_METRICS_LISTENER_H

#include <stdint.h>

struct listener;
struct server;

/* Listens on 127.0.0.1:port. NULL, with the reason in the log, where that cannot be: the daemon does its work without. */
struct listener *listener_new(struct server *server, uint16_t port);
/* Closes it and its connections; it is freed when the loop has run once more. Takes NULL. */
void listener_free(struct listener *listener);

#endif
