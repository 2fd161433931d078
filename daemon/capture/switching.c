/* switching.c - see switching.h. The agent decides: the daemon cannot know which step records when the question
 * arrives. So the daemon always makes a capture for the rest. The agent takes it, or declines it, and the old capture
 * goes on. Thread: the loop's. No locks. */
#include "switching.h"
#include "arming.h"
#include "capture.h"
#include "daemon/catalogue/audit.h"
#include "daemon/core/connection.h"
#include "daemon/core/json.h"
#include "daemon/core/namespaces.h"
#include "daemon/core/server.h"
#include "ending.h"
#include "family.h"
#include "live.h"
#include "proto/collectors.h"
#include "proto/limits.h"
#include "registry_row.h"
#include "together.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first minor version of the protocol whose agents switch. */
#define MINOR 4
#define CHANGES_BYTES 120

/* What one client has asked; it is freed with its last answer. */
struct switching_request {
	struct conn *conn; /* a reference */
	size_t waiting;
};

/* What a capture that continues another needs to know until its client has been answered. */
struct switching {
	struct switching_request *request;
	uint64_t before; /* the number of the capture that was under way */
	uint32_t collectors, stacks_rate;
	char changes[CHANGES_BYTES]; /* "+stacks -memory" */
};

/* One of the captures that are asked for. */
struct wanted {
	struct capture *capture;
	uint32_t collectors;
	uint64_t at_step; /* 0 = the next that it can */
	uint32_t pass;
	bool grouped;
};

/* --- words --- */

/* As the command line calls it. */
static const char *said(const struct collector_facts *collector)
{
	return collector->asked == ASKED_UNLESS ? collector->option + strlen("no-")
	       : *collector->option		? collector->option
						: collector->word;
}

static bool has_word(const char *text, const char *word)
{
	const char *at = strstr(text, word);
	return at && (at[strlen(word)] == 0 || strchr(" ,", at[strlen(word)]));
}

static void add_words(char *text, uint32_t bits, uint32_t others, const char *between, const char *sign)
{
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
		const struct collector_facts *collector = bits >> bit & 1 ? collector_facts(bit) : NULL;
		/* A part is not named if its collector changes, too. */
		if (!collector || (collector->part_of != bit && bits >> collector->part_of & 1 && others))
			continue;
		char word[64];
		snprintf(word, sizeof word, "%s%s", sign, said(collector));
		size_t n = strlen(text);
		if (!has_word(text, word))
			snprintf(text + n, CHANGES_BYTES - n, "%s%s", n ? between : "", word);
	}
}

static void describe_changes(char *text, uint32_t was, uint32_t is, bool rate)
{
	*text = 0;
	add_words(text, is & ~was, was, " ", "+");
	add_words(text, was & ~is, is, " ", "-");
	if (!*text && rate)
		snprintf(text, CHANGES_BYTES, "another rate of samples");
}

/* --- answers --- */

static struct switching_request *request_new(struct conn *conn)
{
	struct switching_request *request = calloc(1, sizeof *request);
	if (!request)
		return NULL;
	request->conn = conn_ref(conn);
	request->waiting = 1;
	conn->follows = true;
	return request;
}

static void request_answered(struct switching_request *request)
{
	struct conn *conn = request->conn;
	if (--request->waiting)
		return;
	conn->follows = false;
	if (!conn->closed)
		conn_end(conn, NULL);
	conn_unref(conn);
	free(request);
}

static void add_who(cJSON *row, const struct conn *conn, const struct capture *capture)
{
	const struct identity *who = &capture->facts.who;
	pid_t pid = namespace_pid(who, capture->server->pid_namespace, conn->pid_namespace);
	json_add_number(row, "pid", pid > 0, pid);
	json_add_number(row, "rank", who->rank >= 0, who->rank);
}

static void say_kept(struct conn *conn, const struct capture *capture, uint64_t number, enum error error,
		     const char *sentence)
{
	char id[ID_BYTES];
	capture_id_text(number, conn->server->user, id);
	/* Where there was nothing to do, the audit log has no line. */
	if (error != ERROR_USAGE && error != ERROR_NOT_RECORDING)
		audit_refused(conn, "set", id, error, capture->facts.who.pid, capture->facts.who.uid);
	if (conn->closed)
		return;
	cJSON *row = conn_row_new("kept");
	cJSON_AddStringToObject(row, "capture_id", id);
	add_who(row, conn, capture);
	json_add_error(row, error_word(error), sentence);
	conn_row(conn, row);
}

static cJSON *switched_row(const struct conn *conn, const struct capture *capture, const struct switching *switching,
			   const struct message_switched *message, const char *text)
{
	bool goes_on = message->first_step != 0, stays = message->before && !goes_on;
	char id[ID_BYTES], rest[ID_BYTES];
	capture_id_text(goes_on || stays ? message->before : switching->before, conn->server->user, id);
	capture_id_text(capture->facts.number, conn->server->user, rest);
	cJSON *row = conn_row_new("switched");
	cJSON_AddStringToObject(row, "capture_id", id);
	json_add_text(row, "goes_on_as", stays ? NULL : rest);
	add_who(row, conn, capture);
	cJSON_AddStringToObject(row, "changes", switching->changes);
	json_add_number(row, "last_step", goes_on, (double)message->last_step);
	json_add_number(row, "first_step", goes_on, (double)message->first_step);
	json_add_number(row, "passed", goes_on, (double)(message->first_step - message->last_step - 1));
	cJSON_AddStringToObject(row, "message", text);
	return row;
}

/* "step 58 passed" */
static void describe_passed(char *text, size_t bytes, uint64_t last, uint64_t first)
{
	if (first <= last + 1)
		snprintf(text, bytes, "no step passed");
	else if (first == last + 2)
		snprintf(text, bytes, "step %" PRIu64 " passed", last + 1);
	else
		snprintf(text, bytes, "steps %" PRIu64 " to %" PRIu64 " passed", last + 1, first - 1);
}

static void describe(char text[SENTENCE_BYTES], const struct capture *capture, const struct switching *switching,
		     const struct message_switched *message)
{
	bool user = capture->server->user;
	char id[ID_BYTES], before[ID_BYTES], passed[96];
	capture_id_text(capture->facts.number, user, id);
	capture_id_text(message->before ? message->before : switching->before, user, before);
	if (message->first_step) {
		describe_passed(passed, sizeof passed, message->last_step, message->first_step);
		snprintf(text, SENTENCE_BYTES,
			 "capture %s ended with step %" PRIu64 " and goes on as capture %s with step %" PRIu64
			 ": %s (%s while collectors were switched)",
			 before, message->last_step, id, message->first_step, switching->changes, passed);
	} else if (message->before) {
		snprintf(text, SENTENCE_BYTES, "capture %s, which has not begun to record yet, begins with: %s", before,
			 switching->changes);
	} else {
		snprintf(text, SENTENCE_BYTES, "from the next cycle on, which is capture %s: %s", id,
			 switching->changes);
	}
}

/* Adds to the note in its file. A capture may be the rest of one and have a rest itself. */
static void add_note(struct capture *capture, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_note(struct capture *capture, const char *format, ...)
{
	size_t n = strlen(capture->switched);
	va_list arguments;
	if (n)
		n += (size_t)snprintf(capture->switched + n, sizeof capture->switched - n, "; ");
	if (n >= sizeof capture->switched)
		return;
	va_start(arguments, format);
	vsnprintf(capture->switched + n, sizeof capture->switched - n, format, arguments);
	va_end(arguments);
}

static void note_rest(struct capture *capture, const struct switching *switching,
		      const struct message_switched *message)
{
	char before[ID_BYTES], passed[64];
	capture_id_text(message->before, capture->server->user, before);
	describe_passed(passed, sizeof passed, message->last_step, message->first_step);
	add_note(capture,
		 "goes on from capture %s, which ended with step %" PRIu64
		 ", as `profd set` asked (%s; %s while collectors "
		 "were switched)",
		 before, message->last_step, switching->changes, passed);
}

/* The capture's client has been answered: nothing more is owed to it. */
static void forget(struct capture *capture)
{
	struct switching *switching = capture->switching;
	capture->switching = NULL;
	request_answered(switching->request);
	free(switching);
}

/* The capture has not begun to record; it begins with the other collectors. */
static void change_collectors(struct capture *capture, const struct switching *switching)
{
	capture->arm.collectors = switching->collectors;
	capture->arm.stacks_rate = switching->stacks_rate;
	capture->handoff.arm = capture->arm;
	memset(capture->handoff.collectors, 0, sizeof capture->handoff.collectors);
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++)
		capture->collectors[bit] = (struct store_collector){.wanted = switching->collectors >> bit & 1};
}

void switching_done(struct capture *capture, const struct message_switched *message)
{
	struct switching *switching = capture->switching;
	struct process *process = capture->process;
	if (!switching || capture->state != STATE_RUNNING)
		return;
	struct conn *conn = switching->request->conn;
	char text[SENTENCE_BYTES], subject[ID_BYTES + CHANGES_BYTES + 2], id[ID_BYTES];
	describe(text, capture, switching, message);
	capture_id_text(switching->before, conn->server->user, id);
	snprintf(subject, sizeof subject, "%s: %s", id, switching->changes);
	audit_done(conn, "set", subject, "switched", capture->facts.who.pid, capture->facts.who.uid);
	if (!conn->closed)
		conn_row(conn, switched_row(conn, capture, switching, message, text));
	struct conn *follower = capture->trigger ? capture->trigger->conn : NULL;
	if (follower)
		conn_row(follower, switched_row(follower, capture, switching, message, text));
	bool stays = message->before && !message->first_step;
	if (message->first_step)
		note_rest(capture, switching, message);
	for (struct capture *other = stays ? process->captures : NULL; other; other = other->next_of_process)
		if (other->facts.number == message->before && capture_is_running(other))
			change_collectors(other, switching);
	forget(capture);
	if (stays)
		capture_drop(capture);
}

void switching_failed(struct capture *capture, enum error error, const char *sentence)
{
	struct switching *switching = capture->switching;
	if (!switching)
		return;
	char id[ID_BYTES], text[SENTENCE_BYTES], detail[SENTENCE_BYTES / 2];
	capture_id_text(switching->before, capture->server->user, id);
	if (error == ERROR_CANCELLED) {
		snprintf(detail, sizeof detail, "capture %s", id);
		error = ERROR_NOT_RECORDING;
		error_text(error, detail, text);
	} else {
		snprintf(text, sizeof text, "capture %s goes on as it was: %s", id, sentence);
	}
	say_kept(switching->request->conn, capture, switching->before, error, text);
	forget(capture);
}

void switching_over(struct capture *capture, uint32_t steps)
{
	struct capture *rest = capture_find(capture->server, capture->followed_by);
	if (!rest || !rest->switching || rest->switching->before != capture->facts.number || !steps ||
	    steps >= capture->facts.steps_wanted)
		return;
	char id[ID_BYTES];
	capture_id_text(rest->facts.number, capture->server->user, id);
	rest->facts.steps_wanted = capture->facts.steps_wanted - steps;
	capture->facts.steps_wanted = steps;
	add_note(capture, "the other %" PRIu64 " steps go on as capture %s, as `profd set` asked (%s)",
		 rest->facts.steps_wanted, id, rest->switching->changes);
	/* The client is told its number, so it stays in the list whatever happens to it. */
	capture_catalogue(rest);
}

/* --- questions --- */

static uint32_t wished(const struct capture *capture, const struct switching_wish *wish)
{
	uint32_t bits = wish->only ? wish->only : capture->arm.collectors;
	bits = (bits | wish->on) & ~wish->off;
	/* Without these collectors there would be no steps. */
	bits |= 1u << COLLECTOR_STEPS;
	bits |= *capture->arm.step_range ? 1u << COLLECTOR_NVTX : 0;
	bits |= *capture->arm.step_operator ? 1u << COLLECTOR_TORCH : 0;
	return collectors_consistent(bits);
}

void switching_later(struct trigger *trigger, const struct switching_wish *wish)
{
	const struct capture as_asked = {.arm = {.collectors = trigger->request.collectors}};
	/* A trigger of an earlier daemon arms no other process. */
	if (!trigger->request.collectors)
		return;
	trigger->request.collectors = wished(&as_asked, wish);
	trigger->request.stacks_rate = wish->stacks_rate ? wish->stacks_rate : trigger->request.stacks_rate;
}

static bool is_being_switched(const struct process *process)
{
	for (const struct capture *capture = process->captures; capture; capture = capture->next_of_process)
		if (capture->switching)
			return true;
	return false;
}

/* Why the capture cannot be switched; NULL: nothing is known against it. */
static const char *refusal(const struct capture *capture, uint32_t collectors, const struct switching_wish *wish,
			   enum error *ret_error)
{
	static char text[SENTENCE_BYTES];
	char id[ID_BYTES], words[CHANGES_BYTES] = "";
	const struct process *process = capture->process;
	capture_id_text(capture->facts.number, capture->server->user, id);
	*ret_error = ERROR_UNAVAILABLE;
	if (!process || !capture->trigger || capture->state != STATE_RUNNING || capture->unanswered) {
		snprintf(text, sizeof text,
			 "capture %s is still being armed, or its agent has not come back after the daemon's restart; "
			 "try again in a moment",
			 id);
	} else if (process->hello.minor < MINOR) {
		snprintf(text, sizeof text,
			 "the agent of capture %s is of an earlier build (%.32s), which cannot switch collectors in "
			 "mid-recording; `profd cancel %s`, and trigger again",
			 id, process->who.agent_version, id);
	} else if (capture->arm.duration) {
		snprintf(text, sizeof text,
			 "capture %s records a window of time, and collectors are switched where a step ends; `profd "
			 "cancel %s` ends it and keeps what it has, then trigger again",
			 id, id);
	} else if (registry_has_new_filter(process)) {
		snprintf(text, sizeof text, "%s", registry_filter_sentence);
	} else if (is_being_switched(process)) {
		snprintf(
			text, sizeof text,
			"collectors of capture %s are being switched already; try again when it has gone on as another "
			"capture",
			id);
	} else if (collectors == wished(capture, &(struct switching_wish){0}) &&
		   (!wish->stacks_rate || wish->stacks_rate == capture->arm.stacks_rate)) {
		*ret_error = ERROR_USAGE;
		add_words(words, collectors, 0, ", ", "");
		snprintf(text, sizeof text, "nothing would change: what capture %s is asked to record is %s", id,
			 words);
	} else {
		return NULL;
	}
	return text;
}

/* Ranks that began with the same step number go on with the same step number. */
static void together_for(struct wanted *wanted, size_t count, size_t first)
{
	struct process *ranks[LIMIT_TARGETS];
	struct capture *one = wanted[first].capture;
	size_t n = 0;
	for (size_t i = first; i < count && n < LIMIT_TARGETS; i++) {
		struct capture *other = wanted[i].capture;
		wanted[i].grouped |= i == first;
		if (other->facts.trigger != one->facts.trigger || !other->arm.at_step || !one->arm.at_step ||
		    other->facts.who.rank < 0 || family_by_job(&one->process, &other->process) != 0)
			continue;
		ranks[n++] = other->process;
		wanted[i].grouped = true;
	}
	uint32_t pass = 0;
	uint64_t at = n > 1 ? together_switch_at(one->trigger, ranks, n, &pass) : 0;
	for (size_t i = first; i < count && at; i++)
		for (size_t k = 0; k < n; k++)
			if (wanted[i].capture->process == ranks[k]) {
				wanted[i].at_step = at;
				wanted[i].pass = pass;
			}
}

static bool ask(struct switching_request *request, const struct wanted *wanted, const struct switching_wish *wish,
		enum error *ret_error, char sentence[SENTENCE_BYTES])
{
	struct capture *capture = wanted->capture;
	struct switching *switching = calloc(1, sizeof *switching);
	struct message_arm arm = capture->arm;
	arm.cycle++;
	arm.options |= ARM_SWITCH;
	arm.collectors = wanted->collectors;
	arm.stacks_rate = wish->stacks_rate ? wish->stacks_rate : arm.stacks_rate;
	arm.switch_at = wanted->at_step;
	arm.switch_pass = wanted->pass;
	arm.repeat += arm.repeat != 0;
	*ret_error = ERROR_FAILED;
	snprintf(sentence, SENTENCE_BYTES, "the daemon is out of memory");
	struct capture *rest =
		switching ? capture_new(capture->process, capture->trigger, &arm, ret_error, sentence) : NULL;
	if (!rest) {
		free(switching);
		return false;
	}
	rest->follows = capture->facts.number;
	capture->followed_by = rest->facts.number;
	*switching = (struct switching){request, capture->facts.number, arm.collectors, arm.stacks_rate, ""};
	describe_changes(switching->changes, capture->arm.collectors, arm.collectors, wish->stacks_rate);
	rest->switching = switching;
	request->waiting++;
	return true;
}

static void ask_all(struct switching_request *request, struct wanted *wanted, size_t count,
		    const struct switching_wish *wish)
{
	enum error error;
	char sentence[SENTENCE_BYTES];
	for (size_t i = 0; i < count; i++)
		if (!wanted[i].grouped)
			together_for(wanted, count, i);
	for (size_t i = 0; i < count; i++)
		if (!ask(request, &wanted[i], wish, &error, sentence))
			say_kept(request->conn, wanted[i].capture, wanted[i].capture->facts.number, error, sentence);
}

void switching_serve(struct conn *conn, struct capture *const *captures, size_t count,
		     const struct switching_wish *wish)
{
	struct wanted *wanted = calloc(count + 1, sizeof *wanted);
	struct switching_request *request = wanted ? request_new(conn) : NULL;
	size_t ready = 0;
	if (!request) {
		conn_error(conn, ERROR_FAILED, "the daemon is out of memory", 0);
		free(wanted);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		uint32_t collectors = wished(captures[i], wish);
		enum error error;
		const char *why = refusal(captures[i], collectors, wish, &error);
		if (why)
			say_kept(conn, captures[i], captures[i]->facts.number, error, why);
		else
			wanted[ready++] = (struct wanted){.capture = captures[i], .collectors = collectors};
	}
	ask_all(request, wanted, ready, wish);
	free(wanted);
	request_answered(request);
}
