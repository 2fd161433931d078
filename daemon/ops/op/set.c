/* set.c - op "set": what is recorded changes in mid-recording.
 *
 * op "set"      {"capture_id"} | {"trigger_id"} | {"pid"}, "only":[WORD..]?, "on":[WORD..]?, "off":[WORD..]? (words of COLLECTOR; "only":
 *                instead of what is recorded now), "stacks_rate":N (0 = as it is)
 *      -> {"row":"switched","capture_id","goes_on_as":ID|null,"pid","rank","changes":TEXT,"last_step","first_step","passed","message"}
 *             for each capture, when it has switched: it has ended with last_step, and the steps from first_step on are another
 *             capture; "passed" steps between are in neither. No step numbers if it had not begun to record: it has the new
 *             collectors itself (goes_on_as null), or from the next cycle on
 *         {"row":"kept","capture_id","pid","rank","error":{"code","message"}}   it goes on as it was
 *         {"row":"waits","trigger_id"}   none of its captures is under way yet: they will have the new collectors
 *         {"end":true}
 *      None under way: error not_recording or no_such_capture. Clients that follow the trigger are told by the same row.
 */
#include "daemon/capture/capture.h"
#include "daemon/capture/live.h"
#include "daemon/capture/switching.h"
#include "daemon/catalogue/audit.h"
#include "daemon/core/connection.h"
#include "daemon/core/reply.h"
#include "daemon/core/server.h"
#include "daemon/ops/clients.h"
#include "daemon/ops/named.h"
#include "daemon/ops/ops.h"
#include "daemon/ops/parse.h"
#include "proto/limits.h"

#include <stdio.h>
#include <stdlib.h>

static void parse_set(struct parse *parse, struct request *request, const cJSON *object)
{
	struct switching_wish *wish = &request->wish;
	parse_text(parse, object, "capture_id", request->capture_id, sizeof request->capture_id);
	parse_text(parse, object, "trigger_id", request->trigger_id, sizeof request->trigger_id);
	parse_request_pid(parse, request, object);
	if ((*request->capture_id != 0) + (*request->trigger_id != 0) + (request->pid != 0) != 1)
		parse_wrong(parse, "set", "does not name exactly one of capture_id, trigger_id, pid");
	wish->only = parse_collectors(parse, object, "only");
	wish->on = parse_collectors(parse, object, "on");
	wish->off = parse_collectors(parse, object, "off");
	wish->stacks_rate = (uint32_t)parse_number(parse, object, "stacks_rate", LIMIT_STACKS_RATE);
	if (!wish->only && !wish->on && !wish->off && !wish->stacks_rate)
		parse_wrong(parse, "set", "holds none of only, on, off, stacks_rate");
}

/* Is it recording, or the next to record? A schedule's later cycles do not count: the change is made to the one that is
 * under way or comes next. */
static bool is_under_way(const struct capture *capture)
{
	return capture->state == STATE_ORPHAN ||
	       (capture_is_running(capture) && !capture->cancel && capture_status_now(capture) != CAPTURE_FINISHING &&
		(!capture->process || capture_of_process(capture->process) == capture));
}

/* Sends the error that says why no capture is under way. */
static void say_none(struct conn *conn)
{
	const struct request *request = &client_of(conn)->request;
	uint64_t number = capture_id_parse(request->capture_id, conn->server->user);
	char detail[SENTENCE_BYTES / 2], id[ID_BYTES], old[ID_BYTES];
	const char *what = *request->trigger_id ? "trigger" : "process";
	if (*request->capture_id && (!number || number >= live_of(conn->server)->next_capture)) {
		conn_error(conn, ERROR_NO_CAPTURE, request->capture_id, 0);
		return;
	}
	snprintf(detail, sizeof detail, "%s %s", what, request->trigger_id);
	if (request->pid)
		snprintf(detail, sizeof detail, "process %d", request->pid);
	capture_id_text(number, conn->server->user, old);
	if (*request->capture_id)
		snprintf(detail, sizeof detail, "capture %s", old);
	for (const struct capture *rest = live_of(conn->server)->captures; rest && number; rest = rest->next) {
		if (rest->follows != number || !is_under_way(rest) || !conn_may(conn, rest->facts.who.uid))
			continue;
		capture_id_text(rest->facts.number, conn->server->user, id);
		snprintf(detail, sizeof detail, "capture %s goes on as capture %s, which you can name here: %s itself",
			 old, id, old);
	}
	conn_error(conn, ERROR_NOT_RECORDING, detail, 0);
}

/* Changes what a trigger that waits for processes will record. Returns whether there is such a trigger. */
static bool change_trigger(struct conn *conn, const struct request *request)
{
	uint64_t number = *request->trigger_id ? trigger_id_parse(request->trigger_id, conn->server->user) : 0;
	struct trigger *trigger = number ? live_of(conn->server)->triggers : NULL;
	while (trigger && trigger->number != number)
		trigger = trigger->next;
	if (!trigger || !trigger->wait_until || !conn_may(conn, trigger->by.uid))
		return false;
	switching_later(trigger, &request->wish);
	return true;
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	(void)packet, (void)n;
	struct live *live = live_of(conn->server);
	const struct process *process = NULL;
	const struct capture *other = NULL;
	size_t count = 0;
	if (request->pid && !(process = named_process(conn, "set")))
		return;
	struct capture **captures = calloc(live->capture_count + 1, sizeof *captures);
	for (struct capture *capture = live->captures; captures && capture; capture = capture->next) {
		if (!is_under_way(capture) || !named_capture(conn, capture, process))
			continue;
		if (conn_may(conn, capture->facts.who.uid))
			captures[count++] = capture;
		else
			other = capture;
	}
	bool waits = change_trigger(conn, request);
	if (!captures) {
		conn_error(conn, ERROR_FAILED, "the daemon is out of memory", 0);
	} else if (count) {
		switching_serve(conn, captures, count, &request->wish);
	} else if (other) {
		audit_refused(conn, "set", *request->capture_id ? request->capture_id : request->trigger_id,
			      ERROR_NOT_YOURS, other->facts.who.pid, other->facts.who.uid);
		conn_error(conn, ERROR_NOT_YOURS, "that capture", 0);
	} else if (waits) {
		audit_done(conn, "set", request->trigger_id, "switched", 0, conn->peer.uid);
		cJSON *row = conn_row_new("waits");
		cJSON_AddStringToObject(row, "trigger_id", request->trigger_id);
		conn_row(conn, row);
		conn_end(conn, NULL);
	} else {
		say_none(conn);
	}
	free(captures);
}

const struct op op_set = {"set", "switches what is recorded in mid-recording", parse_set, serve, NULL};
