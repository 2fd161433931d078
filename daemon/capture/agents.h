/* agents.h - connections of agents: the functions that core calls for them (core/calls.h). Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_AGENTS_H
#define PROFD_DAEMON_CAPTURE_AGENTS_H

#include <stddef.h>

struct conn;

void agent_packet(struct conn *conn, const char *packet, size_t n, int fd);
void agent_closed(struct conn *conn);

#endif
