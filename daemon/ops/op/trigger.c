/* trigger.c - op "trigger": processes are recorded.
 *
 * op "trigger"  {"targets": {"pids":[N..]} | {"name":GLOB} | {"job":TEXT} | {"all":true} |
 *                    {"descendants":true} (the caller itself, whatever program it becomes, and what it starts: each is armed when it has
 *                    shown a step; the schedule counts from its first one. The answer comes at once: "accepted" with 0 armed),
 *                "wait_for": ns (0 = no; else keep matching name/job for processes that register within that time),
 *                "schedule": {"skip_first","wait","warmup","active","repeat"}, "at_step":N (0), "at_multiple":N (0; the first
 *                recorded step's number is to be divisible by it), "duration":ns (0),
 *                "step_range":GLOB (""), "step_operator":GLOB (""), "step_optimizer":GLOB (""),
 *                "batches":"any"|"train"|"validation"|"test"|"inference"|"epoch" (""; batches of a DataLoader are the steps, or all of an epoch), "collectors":[WORD..] (of COLLECTOR
 *                in enums.def), "graphs":"nodes"|"whole" ("nodes"), "api":"launches"|"all" ("launches"),
 *                "stacks_rate":N (0 = as is usual; samples of a thread's
 *                Python stack in a second), "label":TEXT (""), "timeout":ns (deadline of the whole trigger; the daemon ends captures there),
 *                "max_events":N (0), "max_bytes":N (0 = default), "follow":bool,
 *                "alone":bool (false; true: "profiled" where another profiler is seen at work in the process)}
 *      -> {"row":"target","pid","name","rank","outcome":"armed"|ERROR WORD,"message"?,"capture_id"?,"step_source"?,
 *             "trigger_id"?}
 *             one per target, as soon as each agent has answered; "outcome":"left_out" where it launches or helps what is
 *             meant, and shows no steps ("message": "launcher", "worker" or "helper")
 *         {"row":"together","job","processes":N,"at_step":N|null,"message"}  several ranks of one job: the step with which all
 *             begin, or null and why each begins by itself; again where one has begun with another step
 *         {"row":"accepted","trigger_id":ID,"armed":N,"refused":N}
 *         with follow, then until all is finished:
 *         {"row":"progress","capture_id","pid","rank","status":WORD of CAPTURE_STATUS,"step":k,"of":n,
 *             "warmup_step":k,"elapsed":ns}       at most 10 a second for each capture, only on change
 *         {"row":"captured", CAPTURE}             once a capture is in the catalogue (or has failed)
 *         {"end":true,"trigger_id"}
 *      No target matched: error no_such_target (or no_agent, no_such_process, not_permitted for a pid). All targets
 *      refused: the rows, then an error with the first one's word. If the caller's connection closes, captures go on.
 */
#include "daemon/capture/trigger.h"
#include "daemon/catalogue/retention.h"
#include "daemon/core/connection.h"
#include "daemon/core/server.h"
#include "daemon/ops/clients.h"
#include "daemon/ops/ops.h"
#include "daemon/ops/parse.h"
#include "proto/limits.h"
#include "proto/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void pid_list(struct parse *parse, struct trigger_request *request, const cJSON *list)
{
	int n = cJSON_GetArraySize(list);
	if (!cJSON_IsArray(list) || n < 1 || n > LIMIT_TARGETS) {
		parse_wrong(parse, "pids", "is not a list of 1 to 1024 process ids");
		return;
	}
	request->pids = calloc((size_t)n, sizeof *request->pids);
	if (!request->pids) {
		parse_wrong(parse, "pids", "does not fit into the daemon's memory");
		return;
	}
	const cJSON *item;
	cJSON_ArrayForEach(item, list)
	{
		if (!parse_pid(item, &request->pids[request->pid_count])) {
			parse_wrong(parse, "pids", "holds something that is not a process id");
			return;
		}
		request->pid_count++;
	}
}

/* One of two words; the second one sets an option of the agent's. */
static void choice(struct parse *parse, struct trigger_request *request, const cJSON *object, const char *key,
		   const char *usual, const char *other, enum arm_option option)
{
	char word[16] = "", what[64];
	parse_text(parse, object, key, word, sizeof word);
	if (strcmp(word, other) == 0) {
		request->options |= option;
	} else if (*word && strcmp(word, usual) != 0) {
		snprintf(what, sizeof what, "is neither \"%s\" nor \"%s\"", usual, other);
		parse_wrong(parse, key, what);
	}
}

/* Which batches are the steps; 0: batches are not the steps. */
static uint32_t parse_batches(struct parse *parse, const cJSON *object)
{
	char word[16] = "";
	const char *known;
	parse_text(parse, object, "batches", word, sizeof word);
	if (!*word)
		return 0;
	for (unsigned batches = 1; (known = batches_word(batches)); batches++)
		if (strcmp(word, known) == 0)
			return batches;
	parse_wrong(parse, "batches", "is none of any, train, validation, test, inference and epoch");
	return 0;
}

static void parse_schedule(struct parse *parse, const cJSON *from, struct schedule *ret)
{
	ret->skip_first = (uint32_t)parse_number(parse, from, "skip_first", UINT32_MAX);
	ret->wait = (uint32_t)parse_number(parse, from, "wait", UINT32_MAX);
	ret->warmup = (uint32_t)parse_number(parse, from, "warmup", UINT32_MAX);
	ret->active = (uint32_t)parse_number(parse, from, "active", UINT32_MAX);
	ret->repeat = (uint32_t)parse_number(parse, from, "repeat", UINT32_MAX);
}

static void parse_trigger(struct parse *parse, struct request *all, const cJSON *object)
{
	struct trigger_request *request = &all->trigger;
	const cJSON *targets = parse_find(object, "targets"), *schedule = parse_find(object, "schedule");
	if (!cJSON_IsObject(targets)) {
		parse_wrong(parse, "targets", "is missing");
		return;
	}
	if (parse_find(targets, "pids"))
		pid_list(parse, request, parse_find(targets, "pids"));
	parse_text(parse, targets, "name", request->name, sizeof request->name);
	parse_text(parse, targets, "job", request->job, sizeof request->job);
	request->all = parse_truth(parse, targets, "all");
	request->descendants = parse_truth(parse, targets, "descendants");
	if ((request->pid_count > 0) + (*request->name != 0) + (*request->job != 0) + request->all +
		    request->descendants !=
	    1)
		parse_wrong(parse, "targets", "does not hold exactly one of pids, name, job, all, descendants");
	request->wait_for = parse_number(parse, object, "wait_for", LIMIT_DURATION_NS);
	if (request->wait_for && !*request->name && !*request->job)
		parse_wrong(parse, "wait_for", "needs targets by name or by job");
	request->at_step = parse_number(parse, object, "at_step", 1ull << 53);
	request->at_multiple = parse_number(parse, object, "at_multiple", LIMIT_SCHEDULE_STEPS);
	request->duration = parse_number(parse, object, "duration", LIMIT_DURATION_NS);
	if (request->at_multiple && (request->at_step || request->duration))
		parse_wrong(parse, "at_multiple", "goes neither with at_step nor with duration");
	if (request->descendants && request->duration)
		parse_wrong(parse, "duration", "does not go with descendants, which are recorded by steps");
	request->timeout = parse_number(parse, object, "timeout", 1ull << 53);
	request->max_events = parse_number(parse, object, "max_events", 1ull << 53);
	request->max_bytes = parse_number(parse, object, "max_bytes", LIMIT_SEGMENT_BYTES_MAX);
	parse_text(parse, object, "step_range", request->step_range, sizeof request->step_range);
	parse_text(parse, object, "step_operator", request->step_operator, sizeof request->step_operator);
	parse_text(parse, object, "step_optimizer", request->step_optimizer, sizeof request->step_optimizer);
	request->batches = parse_batches(parse, object);
	if (request->descendants && trigger_request_watches(request))
		parse_wrong(parse, "step_range, step_operator, step_optimizer or batches",
			    "does not go with descendants, which are armed when they have shown a step");
	parse_text(parse, object, "label", request->label, sizeof request->label);
	request->stacks_rate = (uint32_t)parse_number(parse, object, "stacks_rate", LIMIT_STACKS_RATE);
	request->follow = parse_truth(parse, object, "follow");
	request->collectors = parse_collectors(parse, object, "collectors");
	if (!request->collectors)
		parse_wrong(parse, "collectors", "is not a list of collectors");
	choice(parse, request, object, "graphs", "nodes", "whole", ARM_GRAPHS_WHOLE);
	choice(parse, request, object, "api", "launches", "all", ARM_API_ALL);
	if (parse_truth(parse, object, "alone"))
		request->options |= ARM_ALONE;
	if (cJSON_IsObject(schedule))
		parse_schedule(parse, schedule, &request->schedule);
	else if (!request->duration)
		parse_wrong(parse, "schedule", "is missing");
	if (request->duration && request->schedule.active == 0)
		request->schedule.active = 1;
	const char *why = schedule_check(&request->schedule);
	if (why && !parse->error) {
		parse->error = ERROR_USAGE;
		snprintf(parse->sentence, parse->sentence_bytes, "%s", why);
	}
}

static void start(struct conn *conn, const char *packet, size_t n)
{
	trigger_start(conn, &client_of(conn)->request.trigger, packet, n);
}

static void serve(struct conn *conn, struct request *request, const char *packet, size_t n)
{
	(void)request;
	if (!retention_defers(conn, start, packet, n))
		start(conn, packet, n);
}

static void refused(struct server *server, enum error error)
{
	counters_triggered(&server->counters, error);
}

const struct op op_trigger = {"trigger", "records processes", parse_trigger, serve, refused};
