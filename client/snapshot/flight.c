/* flight.c - see flight.h. */
#include "flight.h"

#include "client/link/collect.h"
#include "client/ui/clock.h"
#include "client/ui/json.h"
#include "client/ui/text.h"

#include "proto/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* After the trigger's own deadline: time to derive what was recorded until then. */
#define GRACE_NS 60000000000ll

static void conclude(struct member *member, enum outcome outcome, int code, const char *word, const char *why)
{
	member->outcome = outcome;
	member->code = code;
	snprintf(member->word, sizeof member->word, "%s", word);
	snprintf(member->why, sizeof member->why, "%s", why);
}

static cJSON *request(const struct unit *unit, const struct flight_options *options, int64_t timeout)
{
	cJSON *object = request_new("trigger");
	cJSON *targets = need(cJSON_AddObjectToObject(object, "targets"));
	cJSON *pids = need(cJSON_AddArrayToObject(targets, "pids"));
	cJSON *schedule = need(cJSON_AddObjectToObject(object, "schedule"));

	for (size_t i = 0; i < unit->count; i++)
		if (unit->members[i].outcome == OUTCOME_WAITING)
			cJSON_AddItemToArray(pids, need(cJSON_CreateNumber((double)unit->members[i].pid)));
	need(cJSON_AddNumberToObject(schedule, "warmup", (double)options->warmup));
	need(cJSON_AddNumberToObject(schedule, "active", (double)options->steps));
	need(cJSON_AddNumberToObject(schedule, "repeat", 1));
	request_collectors(object, options->collectors);
	need(cJSON_AddNumberToObject(object, "at_multiple", (double)options->at_multiple));
	json_add_text(object, "label", options->label);
	need(cJSON_AddNumberToObject(object, "timeout", (double)timeout));
	need(cJSON_AddTrueToObject(object, "alone"));
	need(cJSON_AddTrueToObject(object, "follow"));
	return object;
}

static void fail_waiting(struct unit *unit, int code, const char *word, const char *why)
{
	for (size_t i = 0; i < unit->count; i++)
		if (unit->members[i].outcome == OUTCOME_WAITING)
			conclude(&unit->members[i], OUTCOME_FAILED, code, word, why);
}

void flight_begin(struct flight *flight, const struct daemon *daemon, struct unit *unit,
		  const struct flight_options *options)
{
	int64_t step = 0, timeout;
	struct failure failure;
	cJSON *object;

	*flight = (struct flight){.unit = unit, .daemon = *daemon};
	flight->daemon.fd = socket_connect(daemon->path);
	if (flight->daemon.fd < 0) {
		failure_set(&failure, ERROR_NO_DAEMON, daemon->path);
		fail_waiting(unit, EXIT_NO_DAEMON, failure.word, failure.message);
		return;
	}
	for (size_t i = 0; i < unit->count; i++) {
		int64_t own = (int64_t)json_number(unit->members[i].process, "step_ns", 0);

		step = own > step ? own : step;
	}
	timeout = snapshot_timeout(options->timeout, options->warmup + options->steps, step);
	object = request(unit, options, timeout);
	flight->give_up = clock_now() + timeout + GRACE_NS;
	flight->open = daemon_send(&flight->daemon, object, &failure);
	cJSON_Delete(object);
	if (!flight->open)
		fail_waiting(unit, error_exit_code(failure.error), failure.word, failure.message);
}

static struct member *member_of(struct flight *flight, const cJSON *row)
{
	const char *id = json_text(row, "capture_id");
	double pid = json_number(row, "pid", 0);

	for (size_t i = 0; i < flight->unit->count; i++) {
		struct member *member = &flight->unit->members[i];

		if ((double)member->pid == pid || (id && *member->id && strcmp(member->id, id) == 0))
			return member;
	}
	return NULL;
}

/* What is no fault of anybody's is skipped: the next run will find it as it is then. */
static void refuse(struct member *member, const char *word, const char *message)
{
	enum error error = error_from_word(word);
	const char *why = message ? message : "the daemon refused and did not say why";

	switch (error) {
	case ERROR_BUSY:
		conclude(member, OUTCOME_SKIPPED, EXIT_DONE, word, "is being recorded");
		break;
	case ERROR_PROFILED:
		conclude(member, OUTCOME_SKIPPED, EXIT_DONE, word, why);
		break;
	case ERROR_GONE:
	case ERROR_NO_PROCESS:
	case ERROR_NO_AGENT:
	case ERROR_NOTHING_YET:
	case ERROR_NOT_REGISTERED:
		conclude(member, OUTCOME_SKIPPED, EXIT_DONE, error_word(ERROR_GONE), "has exited");
		break;
	case ERROR_NO_STEPS:
		conclude(member, OUTCOME_SKIPPED, EXIT_DONE, word, "has shown no steps yet");
		break;
	default:
		conclude(member, OUTCOME_FAILED, error_exit_code(error), word, why);
		break;
	}
}

static void take_target(struct flight *flight, const cJSON *row)
{
	const char *outcome = json_text(row, "outcome"), *id = json_text(row, "capture_id");
	struct member *member = member_of(flight, row);

	if (!member || member->outcome != OUTCOME_WAITING)
		return;
	if (outcome && strcmp(outcome, "armed") == 0)
		snprintf(member->id, sizeof member->id, "%s", id ? id : "");
	else
		refuse(member, outcome ? outcome : "failed", json_text(row, "message"));
}

static void take_captured(struct flight *flight, const cJSON *row)
{
	const char *status = json_text(row, "status"), *reason = json_text(row, "reason");
	const char *word = json_text(row, "reason_code"), *id = json_text(row, "capture_id");
	struct member *member = member_of(flight, row);
	bool failed;

	if (!member || member->captured)
		return;
	member->captured = need(cJSON_Duplicate(row, true));
	cJSON_DeleteItemFromObjectCaseSensitive(member->captured, "row");
	snprintf(member->id, sizeof member->id, "%s", id ? id : "");
	if (status && strcmp(status, "complete") == 0) {
		conclude(member, OUTCOME_RECORDED, EXIT_DONE, "", "");
		return;
	}
	failed = !status || strcmp(status, "incomplete") != 0;
	word = word ? word : "failed";
	conclude(member, failed ? OUTCOME_FAILED : OUTCOME_INCOMPLETE,
		 strcmp(word, cancel_reason_word(REASON_DEADLINE)) == 0 ? EXIT_TIMED_OUT
		 : failed						? EXIT_FAILED
									: EXIT_INCOMPLETE,
		 word, reason ? reason : "the daemon did not say why");
}

void flight_receive(struct flight *flight)
{
	struct failure failure;
	const char *id;
	cJSON *packet;
	int received = daemon_receive(&flight->daemon, 0, &packet, NULL, &failure);

	if (received == RECEIVE_TIMEOUT)
		return;
	if (received != RECEIVE_PACKET) {
		flight->open = false;
		fail_waiting(flight->unit, error_exit_code(failure.error), failure.word, failure.message);
		return;
	}
	if (reply_is_row(packet, "target")) {
		take_target(flight, packet);
	} else if (reply_is_row(packet, "together")) {
		flight->unit->at_step = (int64_t)json_number(packet, "at_step", 0);
		snprintf(flight->unit->together, sizeof flight->unit->together, "%s",
			 json_text(packet, "message") ? json_text(packet, "message") : "");
	} else if (reply_is_row(packet, "captured")) {
		take_captured(flight, packet);
	} else if (reply_is_row(packet, "accepted")) {
		id = json_text(packet, "trigger_id");
		snprintf(flight->trigger_id, sizeof flight->trigger_id, "%s", id ? id : "");
	} else if (reply_error(packet, &failure)) {
		/* If the daemon knew a member, the row of the member has come before. */
		for (size_t i = 0; i < flight->unit->count; i++)
			if (flight->unit->members[i].outcome == OUTCOME_WAITING)
				refuse(&flight->unit->members[i], failure.word, failure.message);
		flight->open = false;
	}
	if (reply_is_end(packet))
		flight->open = false;
	cJSON_Delete(packet);
}

void flight_cancel(struct flight *flight)
{
	struct daemon other = flight->daemon;
	struct collect none = {"none", NULL};
	struct failure failure;

	if (!flight->open || flight->cancelled)
		return;
	flight->cancelled = true;
	other.fd = socket_connect(other.path);
	if (other.fd < 0)
		return;
	for (size_t i = 0; i < flight->unit->count; i++) {
		const struct member *member = &flight->unit->members[i];
		cJSON *object;

		if (member->outcome != OUTCOME_WAITING || (!*flight->trigger_id && !*member->id))
			continue;
		object = request_new("cancel");
		json_add_text(object, *flight->trigger_id ? "trigger_id" : "capture_id",
			      *flight->trigger_id ? flight->trigger_id : member->id);
		daemon_query(&other, object, collect_row, &none, &failure);
		cJSON_Delete(object);
		if (*flight->trigger_id)
			break;
	}
	close(other.fd);
}

void flight_end(struct flight *flight, int code, const char *why)
{
	if (flight->daemon.fd >= 0)
		close(flight->daemon.fd);
	flight->daemon.fd = -1;
	flight->open = false;
	fail_waiting(flight->unit, code, code == EXIT_TIMED_OUT ? error_word(ERROR_TIMEOUT) : error_word(ERROR_FAILED),
		     why);
}
