/* status.c - op "status": the daemon itself.
 *
 * op "status"   -> {"row":"daemon","version","pid"|null,"uid","socket","directory","started_at","processes":N,"running":N,
 *                   "captures":N,"store_bytes":N,"user":bool (a user's own daemon)}, end. Counts are of the captures and processes that the caller may see.
 */
#include "daemon/capture/capture.h"
#include "daemon/capture/live.h"
#include "daemon/catalogue/usage.h"
#include "daemon/core/connection.h"
#include "daemon/core/json.h"
#include "daemon/core/reply.h"
#include "daemon/core/server.h"
#include "daemon/ops/ops.h"
#include "proto/version.h"

#include <unistd.h>

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	(void)request, (void)packet, (void)n;
	const struct server *server = conn->server;
	const struct live *live = live_of(server);
	unsigned running = 0, unstored = 0, processes = 0;
	for (const struct capture *capture = live->captures; capture; capture = capture->next) {
		running += capture->state != STATE_DROPPED && conn_may(conn, capture->facts.who.uid);
		unstored += capture->catalogued && !capture->told_stored && conn_may(conn, capture->facts.who.uid);
	}
	for (const struct process *process = live->processes; process; process = process->next)
		processes += conn_may(conn, process->who.uid);
	cJSON *row = conn_row_new("daemon");
	cJSON_AddStringToObject(row, "version", PROFD_VERSION);
	json_add_number(row, "pid", conn->pid_namespace == server->pid_namespace, getpid());
	cJSON_AddNumberToObject(row, "uid", getuid());
	cJSON_AddStringToObject(row, "socket", server->socket_path);
	cJSON_AddStringToObject(row, "directory", server->directory);
	json_add_time(row, "started_at", server->started_at);
	cJSON_AddNumberToObject(row, "processes", processes);
	cJSON_AddNumberToObject(row, "running", running);
	struct usage_owner stored = usage_sum(usage_of(server), conn->admin, conn->peer.uid);
	cJSON_AddNumberToObject(row, "captures", (double)(stored.captures + unstored));
	cJSON_AddNumberToObject(row, "store_bytes", (double)stored.bytes);
	cJSON_AddBoolToObject(row, "user", server->user);
	conn_row(conn, row);
	conn_end(conn, NULL);
}

const struct op op_status = {"status", "tells of the daemon itself", NULL, serve, NULL};
