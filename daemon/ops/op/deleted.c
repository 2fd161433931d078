/* deleted.c - op "deleted": which captures have been deleted, by whom, and why.
 *
 * op "deleted"  {"limit":N?, "pid"?, "job"?, "name"?, "label"?} -> {"row":"deleted","capture_id","pid","uid","user","name",
 *                "job","rank","host","label","status","started_at","finished_at","bytes","deleted_at","by_uid":N|null (the
 *                daemon),"by":TEXT,"reason":TEXT}*, newest deletion first, end
 */
#include "daemon/catalogue/deleted.h"
#include "daemon/core/connection.h"
#include "daemon/core/json.h"
#include "daemon/core/namespaces.h"
#include "daemon/core/reply.h"
#include "daemon/core/server.h"
#include "daemon/ops/list.h"
#include "daemon/ops/ops.h"
#include "daemon/ops/parse.h"

#include <string.h>

static void ask(struct conn *conn, uint64_t before, void *question)
{
	list_filter(conn, before, question);
}

static int fetch(struct catalogue *catalogue, const void *question, void *rows, unsigned room)
{
	return catalogue_list_deleted(catalogue, question, rows, room);
}

static uint64_t send_row(struct conn *conn, void *of)
{
	const struct deleted_facts *facts = of;
	char id[ID_BYTES];
	cJSON *row = conn_row_new("deleted");
	struct identity who = {.pid = facts->pid};
	memcpy(who.pids, facts->pids, sizeof who.pids);
	capture_id_text(facts->number, conn->server->user, id);
	cJSON_AddStringToObject(row, "capture_id", id);
	pid_t pid = namespace_pid(&who, conn->server->pid_namespace, conn->pid_namespace);
	json_add_number(row, "pid", pid > 0, pid);
	cJSON_AddNumberToObject(row, "uid", facts->uid);
	cJSON_AddStringToObject(row, "user", facts->user);
	cJSON_AddStringToObject(row, "name", facts->name);
	cJSON_AddStringToObject(row, "job", facts->job);
	json_add_number(row, "rank", facts->rank >= 0, facts->rank);
	cJSON_AddStringToObject(row, "host", facts->host);
	cJSON_AddStringToObject(row, "label", facts->label);
	cJSON_AddStringToObject(row, "status", capture_status_word(facts->status));
	json_add_time(row, "started_at", facts->started);
	json_add_time(row, "finished_at", facts->finished);
	cJSON_AddNumberToObject(row, "bytes", (double)facts->bytes);
	json_add_time(row, "deleted_at", facts->at);
	json_add_number(row, "by_uid", !facts->by_daemon, facts->by);
	cJSON_AddStringToObject(row, "by", facts->by_daemon ? "the daemon" : facts->by_user);
	cJSON_AddStringToObject(row, "reason", facts->reason);
	conn_row(conn, row);
	return facts->at;
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	static const struct list_kind kind = {.row_bytes = sizeof(struct deleted_facts),
					      .page = 50,
					      .usual = 100,
					      .question_bytes = sizeof(struct catalogue_filter),
					      .ask = ask,
					      .fetch = fetch,
					      .send = send_row};
	(void)request, (void)packet, (void)n;
	list_serve(conn, &kind);
}

const struct op op_deleted = {"deleted", "lists captures that have been deleted", parse_request_filter, serve, NULL};
