/* trigger.c - see trigger.h. Thread: the loop's. No locks. */
#include "trigger.h"
#include "proto/base/array.h"
#include "daemon/core/json.h"
#include "registry.h"
#include "arming.h"
#include "row.h"
#include "daemon/catalogue/audit.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/core/connection.h"
#include "daemon/core/server.h"
#include "live.h"
#include "capture.h"
#include "daemon/catalogue/history.h"
#include "family.h"
#include "proto/base/clock.h"
#include "handoff.h"
#include "together.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ARMs go out in portions, of which the loop makes one a turn and serves others in between: so many at least, and no more than there is time
 * for; and so many at most wait for an answer, as agents share processors, too, and each has its time from its ARM on. */
#define PORTION_LEAST 16
#define PORTION_NS 3000000ull
#define UNANSWERED_MOST 1024

/* How often a trigger that waits looks at the processes that there are. */
#define LOOK_NS 900000000ull

struct put_trigger {
	struct work work;
	struct server *server;
	uint64_t number;
	uid_t uid;
	pid_t pid;
	char text[];
};

static int64_t put_trigger_run(struct work *work)
{
	struct put_trigger *put = (struct put_trigger *)work;
	catalogue_put_trigger(catalogue_of(put->server), put->number, put->uid, put->pid, put->text);
	free(put);
	return WORK_DONE;
}

/* At most this much of a request is kept in the catalogue. */
#define TRIGGER_TEXT_BYTES 4096
static void prepare_note(struct trigger *trigger, const char *text, size_t n)
{
	if (n > TRIGGER_TEXT_BYTES)
		n = TRIGGER_TEXT_BYTES;
	struct put_trigger *put = calloc(1, sizeof *put + n + 1);
	if (!put)
		return;
	put->work.run = put_trigger_run;
	put->server = trigger->server;
	put->number = trigger->number;
	put->uid = trigger->by.uid;
	put->pid = trigger->by.pid;
	memcpy(put->text, text, n);
	text_clean(put->text, n);
	trigger->unnoted = put;
}

static void audit(const struct trigger *trigger, const struct identity *target, const char *subject,
		  const char *outcome, bool refused)
{
	struct audit_entry entry = {.by = trigger->by,
				    .user = trigger->user,
				    .trusted = trigger->admin,
				    .refused = refused,
				    .action = "trigger",
				    .outcome = outcome,
				    .subject = subject,
				    .target_pid = target ? target->pid : 0,
				    .target_uid = target ? target->uid : (uid_t)-1};
	audit_put(trigger->server, &entry);
}

/* A line of its own for one target of several. */
static void audit_target(const struct trigger *trigger, const struct identity *target, enum error error)
{
	char id[ID_BYTES];
	trigger_id_text(trigger->number, trigger->server->user, id);
	audit(trigger, target, id, error ? error_word(error) : "armed", error != ERROR_NONE);
}

/* Catalogue and audit hear of it once the agents have answered: a disk at work would stand between ARM and ARMED. */
static void note(struct trigger *trigger)
{
	struct put_trigger *put = trigger->unnoted;
	if (!put || trigger->waiting)
		return;
	trigger->unnoted = NULL;
	if (!catalogue_submit(catalogue_of(trigger->server), &put->work))
		free(put);
	char id[ID_BYTES], subject[128];
	trigger_id_text(trigger->number, trigger->server->user, id);
	snprintf(subject, sizeof subject, "%s: %u armed, %u refused", id, trigger->armed, trigger->refused);
	bool none = !trigger->armed && !trigger->wait_until;
	audit(trigger, trigger->targets == 1 ? &trigger->target : NULL, subject,
	      trigger->armed	     ? "armed"
	      : trigger->first_error ? error_word(trigger->first_error)
	      : trigger->wait_until  ? "waiting"
				     : error_word(ERROR_NO_TARGET),
	      none);
}

static cJSON *target_row(const struct trigger *trigger, const struct process *process, int32_t pid, enum error error)
{
	cJSON *row = conn_row_new("target");
	int32_t shown = process ? registry_visible_pid(process, trigger->pid_namespace) : pid;
	json_add_number(row, "pid", shown > 0, shown);
	if (process) {
		cJSON_AddStringToObject(row, "name", process->who.name);
		json_add_number(row, "rank", process->who.rank >= 0, process->who.rank);
	}
	cJSON_AddStringToObject(row, "outcome", error ? error_word(error) : "armed");
	return row;
}

static void tell(struct trigger *trigger, cJSON *row)
{
	if (trigger->conn)
		conn_row(trigger->conn, row);
	else
		cJSON_Delete(row);
}

/* The sentence of an error that speaks of one pid; an agent's own sentence is used where the error has none. */
static void refuse(struct trigger *trigger, const struct process *process, int32_t pid, enum error error,
		   const char *detail)
{
	char text[SENTENCE_BYTES], number[80];
	int32_t shown = process ? registry_visible_pid(process, trigger->pid_namespace) : pid;
	if (shown > 0)
		snprintf(number, sizeof number, error == ERROR_NO_TARGET ? "pid %d" : "%d", shown);
	else
		text_copy(number, sizeof number, process ? process->who.name : "?");
	const char *format = error_sentence(error);
	bool own = format && strcmp(format, "%s") == 0;
	error_text(error, own ? detail : error == ERROR_NOT_YOURS ? "that process" : number, text);
	cJSON *row = target_row(trigger, error == ERROR_NOT_YOURS ? NULL : process, shown, error);
	cJSON_AddStringToObject(row, "message", text);
	/* What only another namespace calls so has no number here. */
	bool known = process || trigger->pid_namespace == trigger->server->pid_namespace;
	struct identity target = {.uid = (uid_t)-1};
	if (known) {
		target.pid = process ? process->who.pid : pid;
		target.uid = process ? process->who.uid : audit_owner(pid);
	}
	trigger->target = target;
	trigger->targets++;
	if (trigger->request.pid_count != 1 && (error == ERROR_NOT_YOURS || error == ERROR_QUOTA))
		audit_target(trigger, &target, error);
	tell(trigger, row);
	trigger->refused++;
	if (!trigger->first_error) {
		trigger->first_error = error;
		text_copy(trigger->first_sentence, sizeof trigger->first_sentence, text);
		trigger->first_pid = shown;
	}
}

static enum error why_not(const struct trigger *trigger, const struct process *process, const char **ret_detail)
{
	const struct trigger_request *request = &trigger->request;
	*ret_detail = "";
	if (!trigger->admin && trigger->by.uid != process->who.uid)
		return ERROR_NOT_YOURS;
	if (capture_of_process(process))
		return ERROR_BUSY;
	enum step_source source = registry_step_source(process);
	bool named = *request->step_range || *request->step_operator || *request->step_optimizer;
	if ((request->at_step || request->at_multiple) &&
	    (named || source == STEP_SOURCE_RANGE || source == STEP_SOURCE_OPERATOR))
		return ERROR_AT_STEP_UNSEEN;
	if (source == STEP_SOURCE_NONE && !request->duration && !named)
		return ERROR_NO_STEPS;
	if (trigger->server->stopping) {
		*ret_detail = "the daemon is going down";
		return ERROR_FAILED;
	}
	if (registry_has_new_filter(process)) {
		*ret_detail = registry_filter_sentence;
		return ERROR_UNAVAILABLE;
	}
	if (process->silent) {
		*ret_detail = "its agent has not answered the last time; is the process stopped?";
		return ERROR_FAILED;
	}
	return ERROR_NONE;
}

/* Where the serial stands, or would. */
static size_t tried_at(const struct trigger *trigger, uint64_t serial)
{
	size_t from = 0, to = trigger->tried_count;
	while (from < to) {
		size_t middle = (from + to) / 2;
		if (trigger->tried[middle] < serial)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static bool was_tried(const struct trigger *trigger, const struct process *process)
{
	size_t at = tried_at(trigger, process->serial);
	return at < trigger->tried_count && trigger->tried[at] == process->serial;
}

static bool remember_tried(struct trigger *trigger, const struct process *process)
{
	if (!ARRAY_GROW(trigger->tried, trigger->tried_count, trigger->tried_capacity))
		return false;
	size_t at = tried_at(trigger, process->serial);
	memmove(trigger->tried + at + 1, trigger->tried + at, (trigger->tried_count - at) * sizeof *trigger->tried);
	trigger->tried[at] = process->serial;
	trigger->tried_count++;
	return true;
}

/* It shows no steps, and nobody who names a job, or a name, means it. */
static void leave_out(struct trigger *trigger, const struct process *process)
{
	const char *role = family_role_word(family_role(process));
	cJSON *row = target_row(trigger, process, 0, ERROR_NO_STEPS);
	cJSON_ReplaceItemInObjectCaseSensitive(row, "outcome", cJSON_CreateString("left_out"));
	cJSON_AddStringToObject(row, "message", role ? role : "helper");
	tell(trigger, row);
	trigger->left_out++;
}

static void arm(struct trigger *trigger, struct process *process, struct together *together)
{
	const struct trigger_request *request = &trigger->request;
	const char *detail;
	char sentence[SENTENCE_BYTES];
	if (was_tried(trigger, process))
		return;
	enum error error = why_not(trigger, process, &detail);
	/* A job that has just started has shown no step yet: whoever waits for it waits for that too. */
	if (error == ERROR_NO_STEPS && trigger->wait_until)
		return;
	if (!remember_tried(trigger, process)) {
		error = ERROR_FAILED;
		detail = "the daemon is out of memory";
	}
	if (error == ERROR_NO_STEPS && !request->pid_count && family_is_bystander(process)) {
		leave_out(trigger, process);
		return;
	}
	if (error) {
		refuse(trigger, process, 0, error, detail);
		return;
	}
	struct message_arm message = MESSAGE_INIT(ARM, arm);
	message.trigger = trigger->number;
	together_fill(trigger, process, together, &message);
	message.collectors = request->collectors;
	message.duration = request->duration;
	message.max_events = request->max_events;
	message.options = request->options;
	message.stacks_rate = request->stacks_rate;
	message_text(message.step_range, sizeof message.step_range, request->step_range);
	message_text(message.step_operator, sizeof message.step_operator, request->step_operator);
	message_text(message.step_optimizer, sizeof message.step_optimizer, request->step_optimizer);
	struct capture *capture = capture_new(process, trigger, &message, &error, sentence);
	if (!capture) {
		refuse(trigger, process, 0, error, sentence);
		return;
	}
	capture->together = together;
	trigger->waiting++;
}

/* Ranks of one job are armed at once: they are given one step. */
static size_t portion_of(const struct trigger *trigger)
{
	struct process **at = trigger->to_arm + trigger->to_arm_from;
	size_t left = trigger->to_arm_to - trigger->to_arm_from, n = left < PORTION_LEAST ? left : PORTION_LEAST;
	while (n < left && at[n] && at[n - 1] && at[n]->who.rank >= 0 && family_by_job(&at[n - 1], &at[n]) == 0)
		n++;
	return n;
}

static void arm_portion(struct trigger *trigger)
{
	size_t count = portion_of(trigger), there = 0;
	struct process **processes = trigger->to_arm + trigger->to_arm_from;
	struct together **together = calloc(count + 1, sizeof(struct together *));
	trigger->to_arm_from += count;
	for (size_t i = 0; i < count; i++)
		if (processes[i])
			processes[there++] = processes[i];
	if (together)
		together_plan(trigger, processes, there, together);
	for (size_t i = 0; i < there; i++)
		arm(trigger, processes[i], together ? together[i] : NULL);
	trigger->waiting -= (unsigned)count;
	free(together);
}

static size_t to_arm(const struct trigger *trigger)
{
	return trigger->to_arm_to - trigger->to_arm_from;
}

static bool may_arm(const struct trigger *trigger)
{
	return to_arm(trigger) && (trigger->server->stopping || trigger->waiting - to_arm(trigger) < UNANSWERED_MOST);
}

/* The rest follows in later turns, or when agents have answered. */
static void arm_some(struct trigger *trigger)
{
	uint64_t until = clock_monotonic() + PORTION_NS;
	while (may_arm(trigger) && clock_monotonic() < until)
		arm_portion(trigger);
	if (may_arm(trigger))
		live_arm_more(trigger->server);
}

/* Those are armed that are not on the way already. Takes over the list, and reorders it. */
static void arm_all(struct trigger *trigger, struct process **processes, size_t count)
{
	if (to_arm(trigger)) {
		free(processes);
		return;
	}
	if (count > 1)
		qsort(processes, count, sizeof(struct process *), family_by_job);
	free(trigger->to_arm);
	trigger->to_arm = processes;
	trigger->to_arm_from = 0;
	trigger->to_arm_to = count;
	trigger->waiting += (unsigned)count;
	arm_some(trigger);
}

void trigger_process_gone(const struct process *process)
{
	for (struct trigger *trigger = live_of(process->server)->triggers; trigger; trigger = trigger->next)
		for (size_t i = trigger->to_arm_from; i < trigger->to_arm_to; i++)
			if (trigger->to_arm[i] == process)
				trigger->to_arm[i] = NULL;
}

void trigger_stop_arming(struct trigger *trigger)
{
	trigger->wait_until = 0;
	trigger->waiting -= (unsigned)to_arm(trigger);
	trigger->to_arm_from = trigger->to_arm_to;
}

static bool matches(const struct trigger *trigger, const struct process *process)
{
	const struct trigger_request *request = &trigger->request;
	if (!trigger->admin && trigger->by.uid != process->who.uid)
		return false;
	if (*request->name)
		return fnmatch(request->name, process->who.name, 0) == 0;
	if (*request->job)
		return strcmp(request->job, process->who.job) == 0;
	return request->all;
}

static void arm_matching(struct trigger *trigger)
{
	struct process **found = calloc(live_of(trigger->server)->process_count + 1, sizeof(struct process *));
	size_t count = 0;
	if (!found)
		return;
	for (struct process *process = live_of(trigger->server)->processes; process; process = process->next)
		if (matches(trigger, process) && !was_tried(trigger, process))
			found[count++] = process;
	arm_all(trigger, found, count);
}

/* --- what follows of answers --- */

static void finish_conn(struct trigger *trigger)
{
	struct conn *conn = trigger->conn;
	trigger->conn = NULL;
	if (!conn)
		return;
	conn->follows = false;
	if (trigger->armed == 0) {
		cJSON *end = cJSON_CreateObject(), *object = cJSON_AddObjectToObject(end, "error");
		enum error error = trigger->first_error ? trigger->first_error
				   : trigger->left_out	? ERROR_NO_STEPS
							: ERROR_NO_TARGET;
		char text[SENTENCE_BYTES];
		const struct trigger_request *request = &trigger->request;
		char what[160];
		snprintf(what, sizeof what, "%s%s",
			 *request->name	 ? "the name "
			 : *request->job ? "the job "
					 : "you",
			 *request->name ? request->name : request->job);
		error_text(ERROR_NO_TARGET, what, text);
		if (trigger->left_out)
			text_copy(
				text, sizeof text,
				"what matches launches or helps other processes and shows no steps itself; name those "
				"that step: `profd ps` lists them");
		cJSON_AddStringToObject(object, "code", error_word(error));
		cJSON_AddStringToObject(object, "message", trigger->first_error ? trigger->first_sentence : text);
		if (trigger->first_pid)
			cJSON_AddNumberToObject(object, "pid", trigger->first_pid);
		conn_end(conn, end);
		return;
	}
	cJSON *end = cJSON_CreateObject();
	char id[ID_BYTES];
	trigger_id_text(trigger->number, trigger->server->user, id);
	cJSON_AddStringToObject(end, "trigger_id", id);
	conn_end(conn, end);
}

static void tell_accepted(struct trigger *trigger)
{
	if (trigger->accepted_told || !trigger->armed)
		return;
	trigger->accepted_told = true;
	counters_triggered(&trigger->server->counters, ERROR_NONE);
	char id[ID_BYTES];
	trigger_id_text(trigger->number, trigger->server->user, id);
	cJSON *row = conn_row_new("accepted");
	cJSON_AddStringToObject(row, "trigger_id", id);
	cJSON_AddNumberToObject(row, "armed", trigger->armed);
	cJSON_AddNumberToObject(row, "refused", trigger->refused);
	tell(trigger, row);
}

/* Ends the reply, and the trigger, when nothing more can come. Returns true where the trigger is gone. */
static bool settle(struct trigger *trigger)
{
	if (trigger->waiting)
		return false;
	bool looking = trigger->wait_until != 0;
	/* Whoever waits for a job that starts later is served once the first capture of it is in. */
	if (looking && trigger->stored && trigger->running == 0)
		looking = false;
	tell_accepted(trigger);
	if (!looking && (!trigger->follow || trigger->armed == 0))
		finish_conn(trigger);
	if (looking || trigger->running)
		return false;
	finish_conn(trigger);
	trigger_free(trigger);
	return true;
}

void trigger_answered(struct trigger *trigger, struct capture *capture, enum error error, const char *sentence)
{
	trigger->waiting--;
	if (error) {
		refuse(trigger, capture->process, 0, error, sentence);
	} else {
		char id[ID_BYTES];
		capture_id_text(capture->facts.number, trigger->server->user, id);
		cJSON *row = target_row(trigger, capture->process, 0, ERROR_NONE);
		char trigger_id[ID_BYTES];
		trigger_id_text(trigger->number, trigger->server->user, trigger_id);
		cJSON_AddStringToObject(row, "trigger_id", trigger_id);
		cJSON_AddStringToObject(row, "capture_id", id);
		const struct trigger_request *request = &trigger->request;
		enum step_source source = request->duration	     ? STEP_SOURCE_DURATION
					  : *request->step_range     ? STEP_SOURCE_RANGE
					  : *request->step_operator  ? STEP_SOURCE_OPERATOR
					  : *request->step_optimizer ? STEP_SOURCE_NAMED
					  : capture->process	     ? registry_step_source(capture->process)
								     : STEP_SOURCE_NONE;
		cJSON_AddStringToObject(row, "step_source", step_source_word(source));
		tell(trigger, row);
		trigger->armed++;
		trigger->target = capture->facts.who;
		trigger->targets++;
		/* What is done to another's process stands by itself, where its owner finds it. */
		bool another = trigger->by.uid != capture->facts.who.uid && request->pid_count != 1;
		if (another || !trigger->unnoted)
			audit_target(trigger, &capture->facts.who, ERROR_NONE);
	}
	/* The capture is the caller's still: what may free the trigger waits for the tick. A reply can go now. */
	if (may_arm(trigger))
		live_arm_more(trigger->server);
	if (trigger->waiting)
		return;
	together_answered(trigger);
	tell_accepted(trigger);
	note(trigger);
	if (!trigger->wait_until && (!trigger->follow || trigger->armed == 0))
		finish_conn(trigger);
}

void trigger_cut_short(struct trigger *trigger, const struct process *process, enum error error, const char *sentence)
{
	refuse(trigger, process, 0, error, sentence);
}

void trigger_captured(struct trigger *trigger, const struct capture *capture)
{
	together_ended(trigger, capture);
	cJSON *row = conn_row_new("captured");
	capture_describe(trigger->server, trigger->pid_namespace, &capture->facts, row);
	tell(trigger, row);
	trigger->running--;
	trigger->stored++;
	/* Another cycle may be asked for by the tick only while the last one runs, so what is settled stays so. */
	settle(trigger);
}

/* Nobody is left who might answer. Returns true where the trigger is gone. */
static bool answered(struct trigger *trigger)
{
	if (trigger->waiting)
		return false;
	together_answered(trigger);
	note(trigger);
	return settle(trigger);
}

void trigger_arm_more(struct server *server)
{
	for (struct trigger *trigger = live_of(server)->triggers, *next; trigger; trigger = next) {
		next = trigger->next;
		if (!to_arm(trigger))
			continue;
		arm_some(trigger);
		answered(trigger);
	}
}

void trigger_tick(struct trigger *trigger, uint64_t now)
{
	/* Who waits for a process asks the next daemon. */
	if (trigger->server->handing_off)
		return;
	if (trigger->wait_until) {
		/* The last time, what has shown no step until now is told so. */
		if (now > trigger->wait_until)
			trigger->wait_until = 0;
		if (!trigger->wait_until || now > trigger->looked_at + LOOK_NS) {
			trigger->looked_at = now;
			arm_matching(trigger);
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
		/* Nobody is left to be told of what starts later. */
		trigger->wait_until = 0;
	}
}

void trigger_offer_process(struct process *process)
{
	for (struct trigger *trigger = live_of(process->server)->triggers; trigger; trigger = trigger->next) {
		if (trigger->wait_until && matches(trigger, process))
			arm(trigger, process, NULL);
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

static void arm_pids(struct trigger *trigger, const struct conn *conn)
{
	const struct trigger_request *request = &trigger->request;
	struct process **found = calloc(request->pid_count, sizeof(struct process *));
	size_t count = 0;
	for (size_t i = 0; found && i < request->pid_count; i++) {
		struct process *process = registry_find_for(conn, request->pids[i]);
		if (process)
			found[count++] = process;
	}
	/* What is there comes first: the first refusal is the reply's, and "not yours" says more than "no such process". */
	bool out_of_memory = !found;
	if (found)
		arm_all(trigger, found, count);
	for (size_t i = 0; i < request->pid_count; i++) {
		pid_t pid = request->pids[i];
		bool known = registry_find_for(conn, pid) != NULL;
		if (!known || out_of_memory)
			refuse(trigger, NULL, pid, known ? ERROR_FAILED : registry_missing(conn, pid),
			       known ? "the daemon is out of memory" : "");
	}
}

void trigger_start(struct conn *conn, struct trigger_request *wanted, const char *text, size_t n)
{
	struct server *server = conn->server;
	char sentence[QUOTA_SENTENCE_BYTES];
	enum error refused = quota_trigger(server, conn->user, wanted->wait_for != 0, sentence);
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
	trigger->waits = request->wait_for != 0;
	trigger->user->waiting += trigger->waits;
	trigger->began = now;
	trigger->follow = request->follow;
	/* A trigger without a deadline of its own has the longest one. */
	if (request->timeout == 0 || request->timeout > 2 * LIMIT_DURATION_NS)
		request->timeout = request->timeout ? 2 * LIMIT_DURATION_NS : LIMIT_DURATION_NS;
	trigger->deadline = now + request->wait_for + request->timeout;
	trigger->wait_until = request->wait_for ? now + request->wait_for : 0;
	trigger->looked_at = now;
	add(trigger);
	conn->follows = true;
	prepare_note(trigger, text, n);
	if (request->pid_count)
		arm_pids(trigger, conn);
	else
		arm_matching(trigger);
	note(trigger);
	settle(trigger);
	server_tick_adjust(server);
}
