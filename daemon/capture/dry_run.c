/* dry_run.c - see dry_run.h. Thread: the loop's; ask_run has the catalogue's. No locks. */
#include "dry_run.h"
#include "capture.h"
#include "daemon/catalogue/ask.h"
#include "daemon/catalogue/audit.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/catalogue/estimate.h"
#include "daemon/catalogue/retention.h"
#include "daemon/core/connection.h"
#include "daemon/core/json.h"
#include "daemon/core/server.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/filters.h"
#include "proto/schedule.h"
#include "registry_row.h"
#include "together.h"
#include "trigger_reply.h"
#include "trigger_targets.h"

#include <stdlib.h>
#include <string.h>

/* A process that would be recorded. */
struct dry_target {
	cJSON *row; /* owned, until it is sent */
	pid_t pid;
	uint64_t start_time;
	uid_t uid;
	char *command; /* owned */
};

struct dry_run {
	struct work work;
	struct server *server;
	struct conn *conn; /* a reference */
	struct dry_target *targets;
	size_t count, capacity, at;
	struct estimate_question question;
	struct estimate answers[ESTIMATE_WAYS]; /* by command only if nothing is known about the process */
	int error;
};

static void dry_run_free(struct dry_run *dry)
{
	for (size_t i = 0; i < dry->count; i++) {
		cJSON_Delete(dry->targets[i].row);
		free(dry->targets[i].command);
	}
	free(dry->targets);
	conn_unref(dry->conn);
	free(dry);
}

/* --- what it would do --- */

/* Why its agent would decline; NULL: it would not, as far as the daemon can know. */
static const char *why_declined(const struct trigger *trigger, const struct process *process,
				const struct message_arm *arm, enum error *ret_error)
{
	uint64_t steps = atomic_load_explicit(&process->page->steps, memory_order_relaxed);
	*ret_error = ERROR_MISSED_STEP;
	if (arm->at_step && !arm->at_multiple && steps + 1 + arm->warmup >= arm->at_step)
		return "that step has passed, or begins too soon to warm up before it; name a later one";
	*ret_error = ERROR_UNAVAILABLE;
	/* This reads a file for each thread, so it is done for one process, but not for all processes of a user. */
	bool confined = trigger->request.pid_count == 1 && registry_has_confined_thread(process);
	return confined ? filters_thread_sentence : NULL;
}

static cJSON *new_row(const struct trigger *trigger, const struct process *process, const char *outcome)
{
	cJSON *row = reply_target(trigger, process, 0, ERROR_NONE);
	cJSON_ReplaceItemInObjectCaseSensitive(row, "outcome", cJSON_CreateString(outcome));
	return row;
}

static void add_steps(const struct trigger *trigger, const struct process *process, const struct message_arm *arm,
		      cJSON *row)
{
	const struct trigger_request *request = &trigger->request;
	bool counted = !request->duration && !trigger_request_watches(request);
	uint64_t step = registry_step_ns(process), first = counted ? together_first(trigger, process, arm) : 0;
	uint64_t ended = atomic_load_explicit(&process->page->steps, memory_order_relaxed);
	if (ended > 1ull << 53)
		first = 0;
	cJSON_AddStringToObject(row, "step_source", step_source_word(registry_step_source(process)));
	json_add_number(row, "step", first, (double)ended);
	json_add_number(row, "step_ns", step, (double)step);
	json_add_number(row, "first_step", first, (double)first);
	json_add_number(row, "last_step", first, (double)(first + arm->active - 1));
	cJSON_AddBoolToObject(row, "about", first && !request->at_step);
	json_add_number(row, "steps", !request->duration, arm->active);
	json_add_number(row, "warmup", !request->duration, arm->warmup);
	json_add_number(row, "cycles", arm->repeat, arm->repeat);
}

bool dry_run_arm(struct trigger *trigger, const struct process *process, const struct message_arm *arm)
{
	struct dry_run *dry = trigger->dry_run;
	struct server *server = trigger->server;
	const struct identity *who = &process->who;
	uint64_t bytes = trigger->request.max_bytes ? trigger->request.max_bytes : LIMIT_SEGMENT_BYTES_DEFAULT;
	char sentence[SENTENCE_BYTES] = "";
	enum error error = ERROR_NO_SPACE;
	if (retention_allows(server, who->uid, sentence, sizeof sentence))
		error = quota_capture(server, trigger->user, bytes, sentence);
	const char *declined = error ? NULL : why_declined(trigger, process, arm, &error);
	if (!declined && error == ERROR_UNAVAILABLE)
		error = ERROR_NONE;
	if (declined)
		text_copy(sentence, sizeof sentence, declined);
	char *command = error ? NULL : strdup(who->command);
	if (!error && (!command || !ARRAY_GROW(dry->targets, dry->count, dry->capacity))) {
		error = ERROR_FAILED;
		text_copy(sentence, sizeof sentence, "the daemon is out of memory");
	}
	if (error) {
		free(command);
		reply_refused(trigger, process, 0, error, sentence);
		return false;
	}
	/* The capture is counted until look() has ended, so that the next target finds that room taken, as in a
	 * trigger. */
	quota_capture_begin(server, trigger->user, bytes);
	cJSON *row = new_row(trigger, process, "would_record");
	add_steps(trigger, process, arm, row);
	dry->targets[dry->count++] = (struct dry_target){row, who->pid, who->start_time, who->uid, command};
	trigger->armed++;
	return true;
}

void dry_run_wait(struct trigger *trigger, const struct process *process)
{
	reply_row(trigger, new_row(trigger, process, "would_wait"));
}

/* --- what it would cost --- */

static cJSON *words_of(uint32_t collectors)
{
	cJSON *list = cJSON_CreateArray();
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++)
		if (collectors >> bit & 1 && collector_word(bit))
			cJSON_AddItemToArray(list, cJSON_CreateString(collector_word(bit)));
	return list;
}

/* null if there is no such capture. `differ`: the collectors that it had in addition, or did not have. */
static void add_figures(const struct dry_run *dry, cJSON *object, const char *key,
			const struct estimate_figures *figures, uint32_t differ)
{
	if (!figures->number) {
		cJSON_AddNullToObject(object, key);
		return;
	}
	cJSON *one = cJSON_AddObjectToObject(object, key);
	char id[ID_BYTES];
	capture_id_text(figures->number, dry->server->user, id);
	bool timed = figures->step_before && figures->step_during;
	double before = (double)figures->step_before, during = (double)figures->step_during;
	uint64_t events = (figures->events + figures->steps / 2) / figures->steps;
	cJSON_AddStringToObject(one, "capture_id", id);
	cJSON_AddNumberToObject(one, "steps", (double)figures->steps);
	json_add_number(one, "step_before_ns", figures->step_before, before);
	json_add_number(one, "step_during_ns", figures->step_during, during);
	json_add_number(one, "step_more_ns", timed, during - before);
	cJSON_AddNumberToObject(one, "events_per_step", (double)events);
	/* Not bytes per step: much of a small file does not depend on the number of steps. */
	cJSON_AddNumberToObject(one, "bytes", (double)figures->bytes);
	cJSON_AddItemToObject(one, "differs_by", words_of(differ));
}

static void add_ways(const struct dry_run *dry, cJSON *object, const struct estimate *answer)
{
	static const struct estimate_figures none;
	uint32_t on = dry->question.collectors & ~answer->off;
	bool same = answer->same.number != 0;
	add_figures(dry, object, "measured", &answer->same, 0);
	add_figures(dry, object, "at_most", same ? &none : &answer->more, answer->more.ran & ~on);
	add_figures(dry, object, "at_least", same ? &none : &answer->fewer, on & ~answer->fewer.ran);
}

static void add_estimate(const struct dry_run *dry, cJSON *row)
{
	const struct estimate *answer = &dry->answers[ESTIMATE_BY_PROCESS],
			      *by_command = &dry->answers[ESTIMATE_BY_COMMAND];
	cJSON *object = cJSON_AddObjectToObject(row, "estimate");
	cJSON_AddNumberToObject(object, "captures", answer->captures);
	cJSON_AddNumberToObject(object, "not_comparable", answer->others);
	add_ways(dry, object, answer);
	if (estimate_is_known(by_command))
		add_ways(dry, cJSON_AddObjectToObject(object, "by_command"), by_command);
	else
		cJSON_AddNullToObject(object, "by_command");
	cJSON *list = cJSON_AddArrayToObject(row, "not_on");
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
		char id[ID_BYTES];
		if (!(answer->off >> bit & 1))
			continue;
		cJSON *one = cJSON_CreateObject();
		capture_id_text(answer->off_number[bit], dry->server->user, id);
		cJSON_AddStringToObject(one, "collector", collector_word(bit));
		cJSON_AddStringToObject(one, "capture_id", id);
		cJSON_AddStringToObject(one, "sentence", answer->off_sentence[bit]);
		cJSON_AddItemToArray(list, one);
	}
}

static int64_t ask_run(struct work *work)
{
	struct dry_run *dry = (struct dry_run *)work;
	struct catalogue *catalogue = catalogue_of(dry->server);
	struct estimate *answer = &dry->answers[ESTIMATE_BY_PROCESS], *by_command = &dry->answers[ESTIMATE_BY_COMMAND];
	*by_command = (struct estimate){0};
	dry->error = catalogue_estimate(catalogue, &dry->question, ESTIMATE_BY_PROCESS, answer);
	/* A process may have no command; then nothing is known by it. */
	if (!dry->error && !estimate_is_known(answer) && *dry->question.command)
		dry->error = catalogue_estimate(catalogue, &dry->question, ESTIMATE_BY_COMMAND, by_command);
	return WORK_DONE;
}

static void ask_done(struct work *work);

/* Asks about one process after the other, so that other clients' questions come in between. Takes `dry`. */
static void ask_next(struct dry_run *dry)
{
	struct conn *conn = dry->conn;
	if (conn->closed || dry->at == dry->count) {
		if (!conn->closed)
			conn_end(conn, NULL);
		dry_run_free(dry);
		return;
	}
	const struct dry_target *target = &dry->targets[dry->at];
	dry->question.pid = target->pid;
	dry->question.start_time = target->start_time;
	dry->question.uid = target->uid;
	text_copy(dry->question.command, sizeof dry->question.command, target->command);
	dry->work = (struct work){.run = ask_run, .done = ask_done};
	if (catalogue_ask(dry->server, conn->user, &dry->work))
		return;
	conn_error(conn, ERROR_FAILED, "the daemon's disk does not keep up; try again in a moment", 0);
	dry_run_free(dry);
}

static void ask_done(struct work *work)
{
	struct dry_run *dry = (struct dry_run *)work;
	struct conn *conn = dry->conn;
	catalogue_answered(dry->server, conn->user);
	if (!conn->closed && (!work->run || dry->error)) {
		conn_error(conn, ERROR_FAILED, "the daemon cannot read its catalogue; its log says why", 0);
		dry_run_free(dry);
		return;
	}
	if (!conn->closed) {
		struct dry_target *target = &dry->targets[dry->at];
		cJSON *row = target->row;
		target->row = NULL;
		cJSON_AddItemToObject(row, "collectors", words_of(dry->question.collectors));
		add_estimate(dry, row);
		conn_row(conn, row);
	}
	dry->at++;
	ask_next(dry);
}

/* --- from the request on --- */

static void fill_question(struct estimate_question *question, const struct trigger_request *request)
{
	question->collectors = request->collectors;
	question->options = request->options;
	question->stacks_rate = request->stacks_rate;
	text_copy(question->step_range, sizeof question->step_range, request->step_range);
	text_copy(question->step_operator, sizeof question->step_operator, request->step_operator);
	text_copy(question->step_optimizer, sizeof question->step_optimizer, request->step_optimizer);
	if (request->batches)
		text_copy(question->batches, sizeof question->batches, batches_word(request->batches));
}

/* Finds the processes that would be recorded, and sends rows of those that would not; all in this turn of the loop. */
static void look(struct trigger *trigger, struct conn *conn)
{
	uint64_t bytes = trigger->request.max_bytes ? trigger->request.max_bytes : LIMIT_SEGMENT_BYTES_DEFAULT;
	if (trigger->request.pid_count)
		targets_arm_pids(trigger, conn);
	else
		targets_arm_matching(trigger);
	while (targets_to_arm(trigger))
		targets_arm_some(trigger);
	for (unsigned i = 0; i < trigger->armed; i++)
		quota_capture_end(trigger->user, bytes);
	together_foretell(trigger);
}

static void trigger_release(struct trigger *trigger)
{
	quota_user_unref(trigger->user);
	free(trigger->request.pids);
	together_free(trigger);
	free(trigger->to_arm);
	free(trigger->tried);
	free(trigger);
}

static bool is_refused(struct conn *conn, const struct trigger_request *wanted)
{
	char sentence[QUOTA_SENTENCE_BYTES] = "";
	enum error refused = quota_trigger_would(conn->server, conn->user, wanted->wait_for != 0, sentence);
	if (wanted->descendants) {
		refused = ERROR_USAGE;
		text_copy(sentence, sizeof sentence,
			  "nothing is known yet about processes that are still to be started");
	}
	if (refused)
		conn_error(conn, refused, sentence, 0);
	return refused != ERROR_NONE;
}

void dry_run_start(struct conn *conn, struct trigger_request *wanted)
{
	if (is_refused(conn, wanted))
		return;
	struct trigger *trigger = calloc(1, sizeof *trigger);
	struct dry_run *dry = calloc(1, sizeof *dry);
	if (!trigger || !dry) {
		free(trigger);
		free(dry);
		conn_error(conn, ERROR_FAILED, "the daemon is out of memory", 0);
		return;
	}
	uint64_t now = clock_monotonic();
	dry->server = conn->server;
	dry->conn = conn_ref(conn);
	fill_question(&dry->question, wanted);
	trigger->dry_run = dry;
	trigger->server = conn->server;
	trigger->conn = conn;
	trigger->request = *wanted;
	wanted->pids = NULL;
	wanted->pid_count = 0;
	if (trigger->request.duration)
		trigger->request.schedule.active = 1;
	trigger->by = conn->peer;
	trigger->admin = conn->admin;
	trigger->pid_namespace = conn->pid_namespace;
	trigger->user = quota_user_ref(conn->user);
	trigger->began = now;
	trigger->wait_until = trigger->request.wait_for ? now + trigger->request.wait_for : 0;
	look(trigger, conn);
	/* A trigger that would wait for processes is not refused. */
	if (trigger->armed || trigger->wait_until) {
		ask_next(dry);
	} else {
		dry_run_free(dry);
		reply_end(trigger);
	}
	trigger_release(trigger);
}
