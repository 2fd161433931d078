/* captures.c - op "captures": lists captures.
 *
 * op "captures" {"limit":N?, "pid"?, "job"?, "name"?, "label"?, "trigger_id"?} -> {"row":"capture", CAPTURE}* newest first, end;
 *                with trigger_id the end holds "running":N, how many of them are under way: whoever followed a trigger goes on
 *                so with the next daemon, until all are finished and none is under way
 */
#include "daemon/capture/capture.h"
#include "daemon/capture/row.h"
#include "daemon/capture/live.h"
#include "daemon/core/connection.h"
#include "daemon/core/reply.h"
#include "daemon/core/server.h"
#include "daemon/ops/clients.h"
#include "daemon/ops/list.h"
#include "daemon/ops/ops.h"
#include "daemon/ops/parse.h"

static void parse_captures(struct parse *parse, struct request *request, const cJSON *object)
{
	parse_request_filter(parse, request, object);
	parse_text(parse, object, "trigger_id", request->trigger_id, sizeof request->trigger_id);
}

static uint64_t trigger_of(const struct conn *conn)
{
	return trigger_id_parse(client_of(conn)->request.trigger_id, conn->server->user);
}

static void ask(struct conn *conn, uint64_t before, void *question)
{
	struct catalogue_filter *filter = question;
	list_filter(conn, before, filter);
	filter->trigger = trigger_of(conn);
}

static int fetch(struct catalogue *catalogue, const void *question, void *rows, unsigned room)
{
	return catalogue_list(catalogue, question, rows, room);
}

/* A capture under way may be further than its row says. */
static void freshen(struct server *server, struct capture_facts *facts)
{
	const struct capture *capture = capture_find(server, facts->number);
	if (!capture || capture->state == STATE_STORING)
		return;
	facts->status = capture_status_now(capture);
	if (capture->ingest && capture->ingest->has_segment && capture->state == STATE_RUNNING) {
		uint32_t steps = atomic_load(&capture->ingest->segment.header->steps_recorded);
		facts->steps_recorded = steps > facts->steps_wanted ? facts->steps_wanted : steps;
	}
}

static uint64_t send_row(struct conn *conn, void *of)
{
	struct capture_facts *facts = of;
	freshen(conn->server, facts);
	cJSON *row = conn_row_new("capture");
	capture_describe(conn->server, conn->pid_namespace, facts, row);
	conn_row(conn, row);
	return facts->number;
}

/* For a trigger, the end also tells how many of its captures are under way. */
static void end_list(struct conn *conn)
{
	cJSON *end = NULL;
	uint64_t trigger = trigger_of(conn);
	if (trigger && conn->server->handing_off) {
		/* This daemon no longer knows the captures that are left to the next one, which will answer. */
		conn_close(conn);
		return;
	}
	if (trigger) {
		unsigned running = 0;
		for (const struct capture *capture = live_of(conn->server)->captures; capture; capture = capture->next)
			running += capture->facts.trigger == trigger && capture->state != STATE_DROPPED &&
				   conn_may(conn, capture->facts.who.uid);
		end = cJSON_CreateObject();
		cJSON_AddNumberToObject(end, "running", running);
	}
	conn_end(conn, end);
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	static const struct list_kind kind = {.row_bytes = sizeof(struct capture_facts),
					      .page = 50,
					      .usual = 100,
					      .question_bytes = sizeof(struct catalogue_filter),
					      .ask = ask,
					      .fetch = fetch,
					      .send = send_row,
					      .end = end_list};
	(void)packet, (void)n;
	if (*request->trigger_id && !trigger_of(conn))
		conn_error(conn, ERROR_NO_CAPTURE, request->trigger_id, 0);
	else
		list_serve(conn, &kind);
}

const struct op op_captures = {"captures", "lists captures", parse_captures, serve, NULL};
