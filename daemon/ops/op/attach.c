/* attach.c - op "attach": a client tells that it is about to bring the agent into a process.
 *
 * op "attach"   {"pid":N} -> end. The daemon does nothing to the process: the client has the kernel's leave for that, or has not. It notes who
 *                asks, for the audit log, and names them once the process has registered.
 */
#include "daemon/capture/announced.h"
#include "daemon/capture/registry.h"
#include "daemon/catalogue/audit.h"
#include "daemon/core/connection.h"
#include "daemon/core/reply.h"
#include "daemon/core/server.h"
#include "daemon/ops/clients.h"
#include "daemon/ops/named.h"
#include "daemon/ops/ops.h"
#include "daemon/ops/parse.h"

#include <stdio.h>

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	(void)packet, (void)n;
	int32_t pid = request->pid;
	/* A pid of another namespace is known once its process registers. */
	bool foreign = conn->pid_namespace != conn->server->pid_namespace;
	char subject[64] = "";
	if (!registry_find_for(conn, pid) && (foreign || registry_missing(conn, pid) == ERROR_NO_AGENT)) {
		if (foreign)
			snprintf(subject, sizeof subject, "the process that has pid %d in its container", pid);
		announced_put(conn, pid);
		audit_done(conn, "attach", subject, "asked", foreign ? 0 : pid, foreign ? (uid_t)-1 : audit_owner(pid));
	} else if (!named_process(conn, "attach")) {
		return;
	}
	conn_end(conn, NULL);
}

const struct op op_attach = {"attach", "notes who is about to bring the agent into a process", parse_request_one_pid,
			     serve, NULL};
