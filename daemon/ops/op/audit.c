/* audit.c - op "audit": who did what.
 *
 * op "audit"    {"limit":N? (100), "since":ns? (not older than that), "uid":N? (what this user did), "action":WORD?}
 *      -> {"row":"audit","at":RFC3339,"uid","user","pid" (who),"action","subject","outcome","target_pid":N|null,
 *          "target_uid":N|null,"target_user":TEXT|null}* newest first, end. The rows tell what the caller did, and what was done to
 *          the caller's processes and captures; an administrator gets all rows.
 */
#include "proto/base/clock.h"
#include "daemon/catalogue/audit_rows.h"
#include "daemon/core/connection.h"
#include "daemon/core/json.h"
#include "daemon/core/reply.h"
#include "daemon/ops/clients.h"
#include "daemon/ops/list.h"
#include "daemon/ops/ops.h"
#include "daemon/ops/parse.h"

static void parse_audit(struct parse *parse, struct request *request, const cJSON *object)
{
	parse_text(parse, object, "action", request->action, sizeof request->action);
	request->limit = parse_number(parse, object, "limit", 1u << 30);
	request->since = parse_number(parse, object, "since", 1ull << 62);
	request->has_uid = parse_find(object, "uid") && !cJSON_IsNull(parse_find(object, "uid"));
	request->uid = (uint32_t)parse_number(parse, object, "uid", UINT32_MAX);
}

static void ask(struct conn *conn, uint64_t before, void *question)
{
	const struct request *request = &client_of(conn)->request;
	struct audit_filter *filter = question;
	*filter = (struct audit_filter){.all = conn->admin,
					.uid = conn->peer.uid,
					.by_uid = request->has_uid ? request->uid : (uid_t)-1,
					.since = request->since,
					.before = before};
	text_copy(filter->action, sizeof filter->action, request->action);
}

static int fetch(struct catalogue *catalogue, const void *question, void *rows, unsigned room)
{
	return catalogue_audit_list(catalogue, question, rows, room);
}

static uint64_t send_row(struct conn *conn, void *of)
{
	const struct audit_row *line = of;
	cJSON *row = conn_row_new("audit");
	json_add_time(row, "at", line->at);
	cJSON_AddNumberToObject(row, "uid", line->uid);
	cJSON_AddStringToObject(row, "user", line->user);
	cJSON_AddNumberToObject(row, "pid", line->pid);
	cJSON_AddStringToObject(row, "action", line->action);
	cJSON_AddStringToObject(row, "subject", line->subject);
	cJSON_AddStringToObject(row, "outcome", line->outcome);
	bool owned = line->target_uid != (uid_t)-1;
	json_add_number(row, "target_pid", line->target_pid != 0, line->target_pid);
	json_add_number(row, "target_uid", owned, line->target_uid);
	json_add_text(row, "target_user", owned ? line->target_user : NULL);
	conn_row(conn, row);
	return line->number;
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	static const struct list_kind kind = {.row_bytes = sizeof(struct audit_row),
					      .page = 100,
					      .usual = 100,
					      .question_bytes = sizeof(struct audit_filter),
					      .ask = ask,
					      .fetch = fetch,
					      .send = send_row};
	(void)packet, (void)n;
	/* The age becomes a time once, before the first page, so that all pages have the same limit. */
	uint64_t now = clock_realtime();
	request->since = request->since && request->since < now ? now - request->since : 0;
	list_serve(conn, &kind);
}

const struct op op_audit = {"audit", "lists who did what", parse_audit, serve, NULL};
