/* request.c - see request.h. Any thread; no state. */
#include "request.h"
#include "base/facts.h"
#include "proto/message.h"
#include "proto/version.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parse {
	struct request *request;
	char *sentence;
	size_t sentence_bytes;
	enum error error;
};

static void wrong(struct parse *parse, const char *key, const char *what)
{
	if (parse->error)
		return;
	parse->error = ERROR_USAGE;
	snprintf(parse->sentence, parse->sentence_bytes, "the request's \"%s\" %s", key, what);
}

/* NULL where absent; the caller checks the type. */
static const cJSON *find(const cJSON *object, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(object, key);
}

static uint64_t number(struct parse *parse, const cJSON *object, const char *key, uint64_t max)
{
	const cJSON *item = find(object, key);
	if (!item || cJSON_IsNull(item))
		return 0;
	if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > (double)max ||
	    item->valuedouble != (double)(uint64_t)item->valuedouble) {
		wrong(parse, key, "is not a whole number in its bounds");
		return 0;
	}
	return (uint64_t)item->valuedouble;
}

static void text(struct parse *parse, const cJSON *object, const char *key, char *to, size_t to_bytes)
{
	const cJSON *item = find(object, key);
	if (!item || cJSON_IsNull(item))
		return;
	if (!cJSON_IsString(item)) {
		wrong(parse, key, "is not a text");
		return;
	}
	size_t n = strlen(item->valuestring);
	if (n >= to_bytes) {
		wrong(parse, key, "is too long");
		return;
	}
	memcpy(to, item->valuestring, n + 1);
	text_clean(to, n);
}

static bool truth(struct parse *parse, const cJSON *object, const char *key)
{
	const cJSON *item = find(object, key);
	if (item && !cJSON_IsBool(item) && !cJSON_IsNull(item))
		wrong(parse, key, "is not true or false");
	return cJSON_IsTrue(item);
}

static bool pid_of(const cJSON *item, int32_t *ret)
{
	if (!cJSON_IsNumber(item) || !(item->valuedouble >= 1) || item->valuedouble > INT32_MAX ||
	    item->valuedouble != (double)(int32_t)item->valuedouble)
		return false;
	*ret = (int32_t)item->valuedouble;
	return true;
}

static void pid_list(struct parse *parse, const cJSON *list)
{
	struct request *request = parse->request;
	int n = cJSON_GetArraySize(list);
	if (!cJSON_IsArray(list) || n < 1 || n > LIMIT_TARGETS) {
		wrong(parse, "pids", "is not a list of 1 to 1024 process ids");
		return;
	}
	request->pids = calloc((size_t)n, sizeof *request->pids);
	if (!request->pids) {
		wrong(parse, "pids", "does not fit into the daemon's memory");
		return;
	}
	const cJSON *item;
	cJSON_ArrayForEach(item, list)
	{
		if (!pid_of(item, &request->pids[request->pid_count])) {
			wrong(parse, "pids", "holds something that is no process id");
			return;
		}
		request->pid_count++;
	}
}

static void one_pid(struct parse *parse, const cJSON *object, bool needed)
{
	const cJSON *item = find(object, "pid");
	if (!item || cJSON_IsNull(item)) {
		if (needed)
			wrong(parse, "pid", "is missing");
		return;
	}
	struct request *request = parse->request;
	request->pids = calloc(1, sizeof *request->pids);
	if (!request->pids || !pid_of(item, request->pids))
		wrong(parse, "pid", "is no process id");
	else
		request->pid_count = 1;
}

static void collectors(struct parse *parse, const cJSON *object)
{
	const cJSON *list = find(object, "collectors"), *item;
	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) == 0) {
		wrong(parse, "collectors", "is not a list of collectors");
		return;
	}
	cJSON_ArrayForEach(item, list)
	{
		unsigned bit = 0;
		while (bit < COLLECTOR_COUNT && (!cJSON_IsString(item) || !collector_word(bit) ||
						 strcmp(collector_word(bit), item->valuestring) != 0))
			bit++;
		if (bit == COLLECTOR_COUNT) {
			wrong(parse, "collectors", "names a collector that this daemon does not know");
			return;
		}
		parse->request->collectors |= 1u << bit;
	}
}

/* One of two words; the second, the rarer one, is an option of the agent's. */
static void choice(struct parse *parse, const cJSON *object, const char *key, const char *usual, const char *other,
		   enum arm_option option)
{
	char word[16] = "", what[64];
	text(parse, object, key, word, sizeof word);
	if (strcmp(word, other) == 0) {
		parse->request->options |= option;
	} else if (*word && strcmp(word, usual) != 0) {
		snprintf(what, sizeof what, "is neither \"%s\" nor \"%s\"", usual, other);
		wrong(parse, key, what);
	}
}

static void trigger(struct parse *parse, const cJSON *object)
{
	struct request *request = parse->request;
	const cJSON *targets = find(object, "targets"), *schedule = find(object, "schedule");
	if (!cJSON_IsObject(targets)) {
		wrong(parse, "targets", "is missing");
		return;
	}
	if (find(targets, "pids"))
		pid_list(parse, find(targets, "pids"));
	text(parse, targets, "name", request->name, sizeof request->name);
	text(parse, targets, "job", request->job, sizeof request->job);
	request->all = truth(parse, targets, "all");
	if ((request->pid_count > 0) + (*request->name != 0) + (*request->job != 0) + request->all != 1)
		wrong(parse, "targets", "does not hold exactly one of pids, name, job, all");
	request->wait_for = number(parse, object, "wait_for", LIMIT_DURATION_NS);
	if (request->wait_for && !*request->name && !*request->job)
		wrong(parse, "wait_for", "needs targets by name or by job");
	request->at_step = number(parse, object, "at_step", 1ull << 53);
	request->at_multiple = number(parse, object, "at_multiple", LIMIT_SCHEDULE_STEPS);
	request->duration = number(parse, object, "duration", LIMIT_DURATION_NS);
	if (request->at_multiple && (request->at_step || request->duration))
		wrong(parse, "at_multiple", "goes neither with at_step nor with duration");
	request->timeout = number(parse, object, "timeout", 1ull << 53);
	request->max_events = number(parse, object, "max_events", 1ull << 53);
	request->max_bytes = number(parse, object, "max_bytes", LIMIT_SEGMENT_BYTES_MAX);
	text(parse, object, "step_range", request->step_range, sizeof request->step_range);
	text(parse, object, "step_operator", request->step_operator, sizeof request->step_operator);
	text(parse, object, "step_optimizer", request->step_optimizer, sizeof request->step_optimizer);
	text(parse, object, "label", request->label, sizeof request->label);
	request->follow = truth(parse, object, "follow");
	collectors(parse, object);
	choice(parse, object, "graphs", "nodes", "whole", ARM_GRAPHS_WHOLE);
	choice(parse, object, "api", "launches", "all", ARM_API_ALL);
	if (truth(parse, object, "alone"))
		request->options |= ARM_ALONE;
	if (cJSON_IsObject(schedule)) {
		request->schedule.skip_first = (uint32_t)number(parse, schedule, "skip_first", UINT32_MAX);
		request->schedule.wait = (uint32_t)number(parse, schedule, "wait", UINT32_MAX);
		request->schedule.warmup = (uint32_t)number(parse, schedule, "warmup", UINT32_MAX);
		request->schedule.active = (uint32_t)number(parse, schedule, "active", UINT32_MAX);
		request->schedule.repeat = (uint32_t)number(parse, schedule, "repeat", UINT32_MAX);
	} else if (!request->duration) {
		wrong(parse, "schedule", "is missing");
	}
	if (request->duration && request->schedule.active == 0)
		request->schedule.active = 1;
	const char *why = schedule_check(&request->schedule);
	if (why && !parse->error) {
		parse->error = ERROR_USAGE;
		snprintf(parse->sentence, parse->sentence_bytes, "%s", why);
	}
}

static void ids(struct parse *parse, const cJSON *object)
{
	struct request *request = parse->request;
	const cJSON *list = find(object, "capture_ids"), *item;
	int n = cJSON_GetArraySize(list);
	if (!cJSON_IsArray(list) || n < 1 || n > LIMIT_TARGETS) {
		wrong(parse, "capture_ids", "is not a list of 1 to 1024 ids");
		return;
	}
	request->ids = calloc((size_t)n, sizeof *request->ids);
	if (!request->ids) {
		wrong(parse, "capture_ids", "does not fit into the daemon's memory");
		return;
	}
	cJSON_ArrayForEach(item, list)
	{
		if (!cJSON_IsString(item) || strlen(item->valuestring) >= REQUEST_ID_BYTES) {
			wrong(parse, "capture_ids", "holds something that is no id");
			return;
		}
		char *id = request->ids[request->id_count++];
		text_copy(id, REQUEST_ID_BYTES, item->valuestring);
		text_clean(id, strlen(id));
	}
}

static void parse_op(struct parse *parse, const cJSON *object)
{
	struct request *request = parse->request;
	switch (request->op) {
	case REQUEST_ps:
		one_pid(parse, object, false);
		break;
	case REQUEST_doctor:
		one_pid(parse, object, true);
		break;
	case REQUEST_trigger:
		trigger(parse, object);
		break;
	case REQUEST_cancel:
		text(parse, object, "capture_id", request->capture_id, sizeof request->capture_id);
		text(parse, object, "trigger_id", request->trigger_id, sizeof request->trigger_id);
		one_pid(parse, object, false);
		request->all = truth(parse, object, "all");
		if ((*request->capture_id != 0) + (*request->trigger_id != 0) + (request->pid_count > 0) +
			    request->all !=
		    1)
			wrong(parse, "cancel", "does not name exactly one of capture_id, trigger_id, pid, all");
		break;
	case REQUEST_captures:
	case REQUEST_deleted:
		one_pid(parse, object, false);
		text(parse, object, "name", request->name, sizeof request->name);
		text(parse, object, "job", request->job, sizeof request->job);
		text(parse, object, "label", request->label, sizeof request->label);
		text(parse, object, "trigger_id", request->trigger_id, sizeof request->trigger_id);
		request->limit = number(parse, object, "limit", 1u << 30);
		break;
	case REQUEST_summary:
	case REQUEST_open:
		text(parse, object, "capture_id", request->capture_id, sizeof request->capture_id);
		if (!*request->capture_id)
			wrong(parse, "capture_id", "is missing");
		break;
	case REQUEST_rm:
		request->keep = truth(parse, object, "keep");
		ids(parse, object);
		break;
	case REQUEST_pin:
	case REQUEST_unpin:
		ids(parse, object);
		break;
	case REQUEST_audit:
		text(parse, object, "action", request->name, sizeof request->name);
		request->limit = number(parse, object, "limit", 1u << 30);
		request->since = number(parse, object, "since", 1ull << 62);
		request->has_uid = find(object, "uid") && !cJSON_IsNull(find(object, "uid"));
		request->uid = (uint32_t)number(parse, object, "uid", UINT32_MAX);
		break;
	case REQUEST_status:
	case REQUEST_metrics:
	case REQUEST_NONE:
		break;
	}
}

static enum request_op op_from_word(const char *word)
{
#define OP(name)                                                                                                       \
	if (strcmp(word, #name) == 0)                                                                                  \
		return REQUEST_##name;
	REQUEST_OPS(OP)
#undef OP
	return REQUEST_NONE;
}

enum error request_parse(struct request *ret, const char *packet, size_t n, char *sentence, size_t sentence_bytes)
{
	struct parse parse = {ret, sentence, sentence_bytes, ERROR_NONE};
	memset(ret, 0, sizeof *ret);
	const char *end = packet;
	cJSON *object = cJSON_ParseWithLengthOpts(packet, n, &end, false);
	bool whole = cJSON_IsObject(object);
	for (; whole && end < packet + n; end++)
		whole = *end == ' ' || *end == '\t' || *end == '\r' || *end == '\n';
	if (!whole) {
		cJSON_Delete(object);
		snprintf(sentence, sentence_bytes, "the request is not one JSON object");
		return ERROR_USAGE;
	}
	char word[32] = "";
	text(&parse, object, "op", word, sizeof word);
	uint64_t major = number(&parse, object, "major", UINT32_MAX);
	ret->op = op_from_word(word);
	if (!parse.error && major != PROTOCOL_MAJOR) {
		parse.error = ERROR_VERSION;
		snprintf(sentence, sentence_bytes,
			 "the client speaks protocol %llu, this daemon (profd %s) protocol %d; use a client and a "
			 "daemon "
			 "of the same release",
			 (unsigned long long)major, PROFD_VERSION, PROTOCOL_MAJOR);
	}
	if (!parse.error && ret->op == REQUEST_NONE)
		wrong(&parse, "op", "is not one that this daemon knows; it may be older than the client");
	if (!parse.error)
		parse_op(&parse, object);
	cJSON_Delete(object);
	return parse.error;
}

void request_deinit(struct request *request)
{
	free(request->pids);
	free(request->ids);
	memset(request, 0, sizeof *request);
}
