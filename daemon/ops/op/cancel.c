/* cancel.c - op "cancel": captures under way end.
 *
 * op "cancel"   {"capture_id"} | {"trigger_id"} | {"pid"} | {"all":true} -> {"row":"cancelled","capture_id","pid","uid","user","name"}*, end.
 *                Captures end with what they have (status incomplete, reason cancelled). A trigger that still waits for processes arms no
 *                more of them: {"row":"taken_back","trigger_id"}; with "all" each such trigger. None: error no_such_capture.
 */
#include "daemon/capture/capture.h"
#include "daemon/capture/ending.h"
#include "daemon/capture/live.h"
#include "daemon/capture/trigger.h"
#include "daemon/capture/trigger_targets.h"
#include "daemon/catalogue/audit.h"
#include "daemon/core/connection.h"
#include "daemon/core/json.h"
#include "daemon/core/namespaces.h"
#include "daemon/core/reply.h"
#include "daemon/core/server.h"
#include "daemon/ops/clients.h"
#include "daemon/ops/named.h"
#include "daemon/ops/ops.h"
#include "daemon/ops/parse.h"

static void parse_cancel(struct parse *parse, struct request *request, const cJSON *object)
{
	parse_text(parse, object, "capture_id", request->capture_id, sizeof request->capture_id);
	parse_text(parse, object, "trigger_id", request->trigger_id, sizeof request->trigger_id);
	parse_request_pid(parse, request, object);
	request->all = parse_truth(parse, object, "all");
	if ((*request->capture_id != 0) + (*request->trigger_id != 0) + (request->pid != 0) + request->all != 1)
		parse_wrong(parse, "cancel", "does not name exactly one of capture_id, trigger_id, pid, all");
}

/* Was it left by an earlier daemon? Its agent has not come back yet. */
static bool is_left(const struct capture *capture)
{
	return capture->state == STATE_ORPHAN;
}

/* Are its records being put into order? That mostly takes moments; if it takes longer, the capture can be ended by its
 * own id. */
static bool is_finishing(const struct capture *capture)
{
	return capture->state == STATE_ENDING || capture->state == STATE_FINISHING;
}

/* Returns whether the capture was one that a user has seen. */
static bool cancel(struct conn *conn, struct capture *capture)
{
	const struct identity *who = &capture->facts.who;
	bool left = is_left(capture);
	char id[ID_BYTES];
	capture_id_text(capture->facts.number, conn->server->user, id);
	if (!capture_give_up(capture))
		capture_cancel(capture, REASON_CANCELLED);
	if (capture->trigger)
		targets_stop(capture->trigger);
	/* No client has been told of a cycle that was only prepared. */
	if (capture->facts.cycle && !left && !capture_has_begun(capture))
		return false;
	audit_done(conn, "cancel", id, "cancelled", who->pid, who->uid);
	cJSON *row = conn_row_new("cancelled");
	cJSON_AddStringToObject(row, "capture_id", id);
	pid_t pid = namespace_pid(who, conn->server->pid_namespace, conn->pid_namespace);
	json_add_number(row, "pid", pid > 0, pid);
	cJSON_AddNumberToObject(row, "uid", who->uid);
	cJSON_AddStringToObject(row, "user", who->user);
	cJSON_AddStringToObject(row, "name", who->name);
	conn_row(conn, row);
	return true;
}

/* Triggers that still wait for a process have no capture yet, but can be ended. Returns how many. */
static unsigned take_back(struct conn *conn, const struct request *request)
{
	unsigned count = 0;
	for (struct trigger *trigger = live_of(conn->server)->triggers; trigger; trigger = trigger->next) {
		char id[ID_BYTES];
		bool waits = trigger->wait_until || trigger->to_arm_from < trigger->to_arm_to;
		bool named = *request->trigger_id &&
			     trigger->number == trigger_id_parse(request->trigger_id, conn->server->user);
		if (!waits || !(named || request->all) || !conn_may(conn, trigger->by.uid))
			continue;
		targets_stop(trigger);
		count++;
		trigger_id_text(trigger->number, conn->server->user, id);
		audit_done(conn, "cancel", id, "cancelled", 0, trigger->by.uid);
		cJSON *row = conn_row_new("taken_back");
		cJSON_AddStringToObject(row, "trigger_id", id);
		conn_row(conn, row);
	}
	return count;
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	(void)packet, (void)n;
	unsigned cancelled = 0;
	const struct capture *other = NULL;
	const struct process *process = NULL;
	/* A user is not told whether another user's process is being recorded. */
	if (request->pid && !(process = named_process(conn, "cancel")))
		return;
	for (struct capture *capture = live_of(conn->server)->captures; capture; capture = capture->next) {
		bool can_end = capture_is_running(capture) || is_left(capture) ||
			       (*request->capture_id && is_finishing(capture));
		bool may = conn_may(conn, capture->facts.who.uid);
		/* With "all": all that this user may end. */
		if (!can_end || !(request->all ? may : named_capture(conn, capture, process)))
			continue;
		if (may)
			cancelled += cancel(conn, capture);
		else
			other = capture;
	}
	cancelled += take_back(conn, request);
	const char *what = *request->capture_id	  ? request->capture_id
			   : *request->trigger_id ? request->trigger_id
						  : "under way";
	if (cancelled) {
		conn_end(conn, NULL);
	} else if (other) {
		audit_refused(conn, "cancel", what, ERROR_NOT_YOURS, other->facts.who.pid, other->facts.who.uid);
		conn_error(conn, ERROR_NOT_YOURS, "that capture", 0);
	} else {
		conn_error(conn, ERROR_NO_CAPTURE, what, 0);
	}
}

const struct op op_cancel = {"cancel", "ends captures that are under way", parse_cancel, serve, NULL};
