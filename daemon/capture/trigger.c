/* trigger.c - see trigger.h. Thread: the loop's. No locks. */
#include "trigger.h"
#include "capture.h"
#include "daemon/catalogue/audit.h"
#include "daemon/core/connection.h"
#include "daemon/core/json.h"
#include "daemon/core/server.h"
#include "handoff.h"
#include "live.h"
#include "process_stat.h"
#include "proto/base/clock.h"
#include "registry.h"
#include "registry_row.h"
#include "row.h"
#include "together.h"
#include "trigger_reply.h"
#include "trigger_targets.h"

#include <stdlib.h>

/* How often a trigger that waits looks at the processes that there are. */
#define LOOK_NS 900000000ull

/* Ends the reply, and the trigger, when nothing more can come. Returns true where the trigger is gone. */
static bool settle(struct trigger *trigger)
{
	if (trigger->waiting)
		return false;
	bool looking = trigger->wait_until != 0;
	/* A client that waits for a job to start is served once the job's first capture is in. */
	if (looking && trigger->stored && trigger->running == 0)
		looking = false;
	reply_accepted(trigger);
	if (!looking && (!trigger->follow || trigger->armed == 0))
		reply_end(trigger);
	if (looking || trigger->running)
		return false;
	reply_end(trigger);
	trigger_free(trigger);
	return true;
}

void trigger_answered(struct trigger *trigger, struct capture *capture, enum error error, const char *sentence)
{
	trigger->waiting--;
	if (error) {
		reply_refused(trigger, capture->process, 0, error, sentence);
	} else {
		char id[ID_BYTES];
		capture_id_text(capture->facts.number, trigger->server->user, id);
		cJSON *row = reply_target(trigger, capture->process, 0, ERROR_NONE);
		char trigger_id[ID_BYTES];
		trigger_id_text(trigger->number, trigger->server->user, trigger_id);
		cJSON_AddStringToObject(row, "trigger_id", trigger_id);
		cJSON_AddStringToObject(row, "capture_id", id);
		const struct trigger_request *request = &trigger->request;
		enum step_source source = request->duration		      ? STEP_SOURCE_DURATION
					  : *request->step_range	      ? STEP_SOURCE_RANGE
					  : *request->step_operator	      ? STEP_SOURCE_OPERATOR
					  : *request->step_optimizer	      ? STEP_SOURCE_NAMED
					  : request->batches == BATCHES_EPOCH ? STEP_SOURCE_EPOCH
					  : request->batches		      ? STEP_SOURCE_BATCH
					  : capture->process		      ? registry_step_source(capture->process)
									      : STEP_SOURCE_NONE;
		cJSON_AddStringToObject(row, "step_source", step_source_word(source));
		reply_row(trigger, row);
		trigger->armed++;
		trigger->target = capture->facts.who;
		trigger->targets++;
		/* Recording another user's process has a line of its own, where that user finds it. */
		bool another = trigger->by.uid != capture->facts.who.uid && request->pid_count != 1;
		if (another || !trigger->unnoted)
			reply_audit_target(trigger, &capture->facts.who, ERROR_NONE);
	}
	/* The caller still uses the capture, so the trigger is freed later, by the tick. A reply can be sent now. */
	if (targets_may_arm(trigger))
		live_arm_more(trigger->server);
	if (trigger->waiting)
		return;
	together_answered(trigger);
	reply_accepted(trigger);
	reply_note(trigger);
	if (!trigger->wait_until && (!trigger->follow || trigger->armed == 0))
		reply_end(trigger);
}

void trigger_cut_short(struct trigger *trigger, const struct process *process, enum error error, const char *sentence)
{
	reply_refused(trigger, process, 0, error, sentence);
}

void trigger_captured(struct trigger *trigger, const struct capture *capture)
{
	together_ended(trigger, capture);
	cJSON *row = conn_row_new("captured");
	capture_describe(trigger->server, trigger->pid_namespace, &capture->facts, row);
	reply_row(trigger, row);
	trigger->running--;
	trigger->stored++;
	/* The tick asks for another cycle only while the last one runs, so a settled trigger stays settled. */
	settle(trigger);
}

/* If no answer is awaited any more, tells what came of it. Returns true where the trigger is gone. */
static bool answered(struct trigger *trigger)
{
	if (trigger->waiting)
		return false;
	together_answered(trigger);
	reply_note(trigger);
	return settle(trigger);
}

void trigger_arm_more(struct server *server)
{
	for (struct trigger *trigger = live_of(server)->triggers, *next; trigger; trigger = next) {
		next = trigger->next;
		if (!targets_to_arm(trigger))
			continue;
		targets_arm_some(trigger);
		answered(trigger);
	}
}

void trigger_tick(struct trigger *trigger, uint64_t now)
{
	/* A client that waits for a process asks the next daemon again. */
	if (trigger->server->handing_off)
		return;
	if (trigger->root && trigger->wait_until && now > trigger->looked_at + LOOK_NS && !targets_may_come(trigger)) {
		targets_stop(trigger);
		reply_note_end(trigger);
	}
	if (trigger->wait_until) {
		/* When the wait is over, processes that have shown no step are refused, with that reason. */
		if (now > trigger->wait_until)
			trigger->wait_until = 0;
		if (!trigger->wait_until || now > trigger->looked_at + LOOK_NS) {
			trigger->looked_at = now;
			targets_arm_matching(trigger);
		}
	}
	answered(trigger);
}

void trigger_unfollow(struct conn *conn)
{
	for (struct trigger *trigger = live_of(conn->server)->triggers; trigger && conn->follows;
	     trigger = trigger->next) {
		if (trigger->conn != conn)
			continue;
		trigger->conn = NULL;
		conn->follows = false;
		/* Nobody is left to be told of processes that start later. */
		trigger->wait_until = 0;
	}
}

void trigger_free(struct trigger *trigger)
{
	struct server *server = trigger->server;
	if (!trigger->accepted_told)
		counters_triggered(&server->counters, trigger->first_error ? trigger->first_error : ERROR_NO_TARGET);
	if (trigger->conn)
		trigger->conn->follows = false;
	for (struct capture *capture = live_of(server)->captures; capture; capture = capture->next)
		if (capture->trigger == trigger)
			capture->trigger = NULL;
	if (trigger->previous)
		trigger->previous->next = trigger->next;
	else
		live_of(server)->triggers = trigger->next;
	if (trigger->next)
		trigger->next->previous = trigger->previous;
	if (trigger->waits)
		trigger->user->waiting--;
	quota_user_unref(trigger->user);
	free(trigger->request.pids);
	together_free(trigger);
	free(trigger->unnoted);
	free(trigger->to_arm);
	free(trigger->tried);
	free(trigger);
}

static void add(struct trigger *trigger)
{
	struct server *server = trigger->server;
	trigger->next = live_of(server)->triggers;
	if (trigger->next)
		trigger->next->previous = trigger;
	live_of(server)->triggers = trigger;
}

struct trigger *trigger_resume(struct server *server, uint64_t number, uid_t uid, const struct handoff *handoff,
			       const char *label)
{
	for (struct trigger *trigger = live_of(server)->triggers; trigger; trigger = trigger->next)
		if (trigger->number == number)
			return trigger;
	struct trigger *trigger = calloc(1, sizeof *trigger);
	struct quota_user *user = quota_user(server, uid);
	if (!trigger || !user) {
		quota_user_unref(user);
		free(trigger);
		return NULL;
	}
	trigger->server = server;
	trigger->number = number;
	trigger->by.uid = uid;
	trigger->user = user;
	trigger->began = clock_monotonic();
	trigger->deadline = handoff->deadline;
	trigger->armed = 1;
	trigger->accepted_told = true;
	trigger->request.max_bytes = handoff->max_bytes;
	trigger->request.timeout = handoff->timeout;
	text_copy(trigger->request.label, sizeof trigger->request.label, label);
	add(trigger);
	return trigger;
}

void trigger_start(struct conn *conn, struct trigger_request *wanted, const char *text, size_t n)
{
	struct server *server = conn->server;
	char sentence[QUOTA_SENTENCE_BYTES];
	bool waits = wanted->wait_for != 0 || wanted->descendants;
	enum error refused = quota_trigger(server, conn->user, waits, sentence);
	uint64_t root_start = wanted->descendants ? process_start_time(conn->peer.pid) : 0;
	if (!refused && wanted->descendants && !root_start) {
		refused = ERROR_FAILED;
		snprintf(sentence, sizeof sentence, "the daemon cannot see the process that asks");
	}
	if (refused) {
		counters_triggered(&server->counters, refused);
		audit_refused(conn, "trigger", sentence, refused, 0, (uid_t)-1);
		conn_error(conn, refused, sentence, 0);
		return;
	}
	struct trigger *trigger = calloc(1, sizeof *trigger);
	if (!trigger) {
		counters_triggered(&server->counters, ERROR_FAILED);
		conn_error(conn, ERROR_FAILED, "the daemon is out of memory", 0);
		return;
	}
	uint64_t now = clock_monotonic();
	trigger->server = server;
	trigger->number = live_of(server)->next_trigger++;
	trigger->conn = conn;
	trigger->request = *wanted;
	wanted->pids = NULL;
	wanted->pid_count = 0;
	struct trigger_request *request = &trigger->request;
	if (request->duration)
		request->schedule.active = 1;
	trigger->by = conn->peer;
	trigger->admin = conn->admin;
	trigger->pid_namespace = conn->pid_namespace;
	trigger->user = quota_user_ref(conn->user);
	trigger->waits = waits;
	trigger->user->waiting += trigger->waits;
	trigger->began = now;
	trigger->follow = request->follow;
	/* A trigger without a deadline of its own has the longest one. */
	if (request->timeout == 0 || request->timeout > 2 * LIMIT_DURATION_NS)
		request->timeout = request->timeout ? 2 * LIMIT_DURATION_NS : LIMIT_DURATION_NS;
	trigger->deadline = now + request->wait_for + request->timeout;
	trigger->wait_until = request->wait_for ? now + request->wait_for : 0;
	if (request->descendants) {
		trigger->wait_until = UINT64_MAX;
		trigger->root = conn->peer.pid;
		trigger->root_start = root_start;
	}
	trigger->looked_at = now;
	add(trigger);
	conn->follows = true;
	reply_prepare_note(trigger, text, n);
	if (request->pid_count)
		targets_arm_pids(trigger, conn);
	else
		targets_arm_matching(trigger);
	reply_note(trigger);
	/* The client becomes the command itself, and follows nothing. */
	if (trigger->root)
		reply_waiting(trigger);
	settle(trigger);
	server_tick_adjust(server);
}
