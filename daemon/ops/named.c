/* named.c - see named.h. Thread: the loop's. No locks. */
#include "named.h"
#include "clients.h"
#include "daemon/capture/capture.h"
#include "daemon/capture/registry.h"
#include "daemon/capture/registry_row.h"
#include "daemon/catalogue/audit.h"
#include "daemon/core/connection.h"
#include "daemon/core/reply.h"
#include "daemon/core/server.h"

#include <stdio.h>

struct process *named_process(struct conn *conn, const char *action)
{
	int32_t pid = client_of(conn)->request.pid;
	struct process *process = registry_find_for(conn, pid);
	enum error error = ERROR_NONE;
	if (!process)
		error = registry_missing(conn, pid);
	else if (!conn_may(conn, process->who.uid))
		error = ERROR_NOT_YOURS;
	if (!error)
		return process;
	if (error == ERROR_NOT_YOURS)
		audit_refused(conn, action, "", error, process ? process->who.pid : pid,
			      process ? process->who.uid : audit_owner(pid));
	char detail[32];
	snprintf(detail, sizeof detail,
		 error == ERROR_NOT_YOURS   ? "process %d"
		 : error == ERROR_NO_TARGET ? "pid %d"
					    : "%d",
		 pid);
	conn_error(conn, error, detail, pid);
	return NULL;
}

bool named_capture(const struct conn *conn, const struct capture *capture, const struct process *process)
{
	const struct request *request = &client_of(conn)->request;
	bool user = conn->server->user;
	if (*request->capture_id)
		return capture->facts.number == capture_id_parse(request->capture_id, user);
	if (*request->trigger_id)
		return capture->facts.trigger == trigger_id_parse(request->trigger_id, user);
	return process && capture->facts.who.pid == process->who.pid &&
	       capture->facts.who.start_time == process->who.start_time;
}

void process_row(struct conn *conn, const struct process *process)
{
	cJSON *row = conn_row_new("process");
	registry_describe(process, conn->pid_namespace, row);
	conn_row(conn, row);
}
