/* detach.c - op "detach": an agent leaves its process.
 *
 * op "detach"   {"pid":N} -> {"row":"detached","pid"}, end, once the agent has closed its connection: no hook, thread or descriptor of
 *                it is left. A running capture ends before (status incomplete, reason detached).
 */
#include "daemon/capture/probe.h"
#include "daemon/capture/registry.h"
#include "daemon/capture/process_stat.h"
#include "daemon/catalogue/audit.h"
#include "daemon/core/connection.h"
#include "daemon/core/json.h"
#include "daemon/core/reply.h"
#include "daemon/ops/clients.h"
#include "daemon/ops/named.h"
#include "daemon/ops/ops.h"
#include "daemon/ops/parse.h"

#include <stdio.h>

/* The first minor version of the protocol whose agents know DETACH. */
#define MINOR 3

static void over(struct probe *probe, const struct process *process, enum error error)
{
	struct conn *conn = client_of_probe(probe)->conn;
	const struct identity *who = &process->who;
	int32_t pid = registry_visible_pid(process, conn->pid_namespace);
	char detail[160];
	snprintf(detail, sizeof detail, "%d", pid);
	if (error == ERROR_GONE && process_has_ended(who->pid, who->start_time)) {
		conn_error(conn, ERROR_GONE, detail, pid);
		return;
	}
	if (error != ERROR_GONE) {
		snprintf(
			detail, sizeof detail,
			"the agent of process %d has not left yet: it leaves as soon as it can run, if the process is not "
			"stopped",
			pid);
		conn_error(conn, ERROR_TIMEOUT, detail, pid);
		return;
	}
	cJSON *row = conn_row_new("detached");
	json_add_number(row, "pid", pid > 0, pid);
	conn_row(conn, row);
	conn_end(conn, NULL);
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	(void)request, (void)packet, (void)n;
	struct process *process = named_process(conn, "detach");
	if (!process)
		return;
	int32_t pid = registry_visible_pid(process, conn->pid_namespace);
	if (process->hello.minor < MINOR) {
		char sentence[160];
		snprintf(sentence, sizeof sentence,
			 "the agent of process %d is of profd %.32s, which cannot be detached", pid,
			 process->who.agent_version);
		conn_error(conn, ERROR_UNAVAILABLE, sentence, pid);
		return;
	}
	if (registry_has_new_filter(process)) {
		conn_error(conn, ERROR_UNAVAILABLE, registry_filter_sentence, pid);
		return;
	}
	struct probe *probe = &client_of(conn)->probe;
	probe->over = over;
	/* It leaves whether or not the client waits for it. */
	audit_done(conn, "detach", process->who.name, "asked", process->who.pid, process->who.uid);
	probe_detach(probe, process);
}

const struct op op_detach = {"detach", "lets an agent leave its process", parse_request_one_pid, serve, NULL};
