/* agents.c - see agents.h. Thread: the loop's. No locks. */
#include "agents.h"
#include "daemon/catalogue/audit.h"
#include "daemon/core/connection.h"
#include "proto/message.h"
#include "registry.h"

#include <stdio.h>

void agent_packet(struct conn *conn, const char *packet, size_t n, int fd)
{
	union message_any message;
	const char *why = "";
	if (message_check(packet, n, 1, &message, &why)) {
		char subject[160];
		snprintf(subject, sizeof subject, "it sent a packet that is not an agent's (%s), and was closed",
			 why ? why : "malformed");
		audit_refused(conn, "connection", subject, ERROR_PROTOCOL, 0, (uid_t)-1);
		conn_close(conn);
		return;
	}
	registry_message(conn, &message, fd);
}

void agent_closed(struct conn *conn)
{
	if (conn->owner)
		registry_gone(conn->owner);
	conn->owner = NULL;
}
