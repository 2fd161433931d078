/* serve.h - the ops of clients that are not triggers. Loop's thread. */
#ifndef PROFD_DAEMON_OPS_SERVE_H
#define PROFD_DAEMON_OPS_SERVE_H

#include "daemon/capture/registry.h"

/* Serves one packet of a client, with its descriptor (-1 = none; the caller's to close). */
void serve_packet(struct conn *conn, const char *packet, size_t n, int fd);
/* A COLLECTOR message that answers PROBE. */
void serve_probe_answer(struct process *process, const struct message_collector *answer);
/* The process that a doctor asked is gone. */
void serve_probe_gone(struct process *process);
void serve_tick(struct conn *conn, uint64_t now);

#endif
