/* parse.c - see parse.h. */
#include "parse.h"
#include "proto/limits.h"
#include "request.h"
#include "proto/collectors.h"
#include "proto/base/facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void parse_wrong(struct parse *parse, const char *key, const char *what)
{
	if (parse->error)
		return;
	parse->error = ERROR_USAGE;
	snprintf(parse->sentence, parse->sentence_bytes, "the request's \"%s\" %s", key, what);
}

const cJSON *parse_find(const cJSON *object, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(object, key);
}

uint64_t parse_number(struct parse *parse, const cJSON *object, const char *key, uint64_t max)
{
	const cJSON *item = parse_find(object, key);
	if (!item || cJSON_IsNull(item))
		return 0;
	if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > (double)max ||
	    item->valuedouble != (double)(uint64_t)item->valuedouble) {
		parse_wrong(parse, key, "is not a whole number in its bounds");
		return 0;
	}
	return (uint64_t)item->valuedouble;
}

void parse_text(struct parse *parse, const cJSON *object, const char *key, char *to, size_t to_bytes)
{
	const cJSON *item = parse_find(object, key);
	if (!item || cJSON_IsNull(item))
		return;
	if (!cJSON_IsString(item)) {
		parse_wrong(parse, key, "is not a text");
		return;
	}
	size_t n = strlen(item->valuestring);
	if (n >= to_bytes) {
		parse_wrong(parse, key, "is too long");
		return;
	}
	memcpy(to, item->valuestring, n + 1);
	text_clean(to, n);
}

bool parse_truth(struct parse *parse, const cJSON *object, const char *key)
{
	const cJSON *item = parse_find(object, key);
	if (item && !cJSON_IsBool(item) && !cJSON_IsNull(item))
		parse_wrong(parse, key, "is not true or false");
	return cJSON_IsTrue(item);
}

static unsigned collector_of(const cJSON *item)
{
	unsigned bit = 0;
	while (bit < COLLECTOR_COUNT &&
	       (!cJSON_IsString(item) || !collector_word(bit) || strcmp(collector_word(bit), item->valuestring) != 0))
		bit++;
	return bit;
}

uint32_t parse_collectors(struct parse *parse, const cJSON *object, const char *key)
{
	const cJSON *list = parse_find(object, key), *item;
	uint32_t bits = 0;
	if (!list || cJSON_IsNull(list))
		return 0;
	if (!cJSON_IsArray(list)) {
		parse_wrong(parse, key, "is not a list of collectors");
		return 0;
	}
	cJSON_ArrayForEach(item, list)
	{
		unsigned bit = collector_of(item);
		if (bit == COLLECTOR_COUNT)
			parse_wrong(parse, key, "names a collector that this daemon does not know");
		else
			bits |= 1u << bit;
	}
	return bits;
}

bool parse_pid(const cJSON *item, int32_t *ret)
{
	if (!cJSON_IsNumber(item) || !(item->valuedouble >= 1) || item->valuedouble > INT32_MAX ||
	    item->valuedouble != (double)(int32_t)item->valuedouble)
		return false;
	*ret = (int32_t)item->valuedouble;
	return true;
}

void parse_request_pid(struct parse *parse, struct request *request, const cJSON *object)
{
	const cJSON *item = parse_find(object, "pid");
	if (item && !cJSON_IsNull(item) && !parse_pid(item, &request->pid))
		parse_wrong(parse, "pid", "is not a process id");
}

void parse_request_one_pid(struct parse *parse, struct request *request, const cJSON *object)
{
	parse_request_pid(parse, request, object);
	if (!request->pid)
		parse_wrong(parse, "pid", "is missing");
}

void parse_request_ids(struct parse *parse, struct request *request, const cJSON *object)
{
	const cJSON *list = parse_find(object, "capture_ids"), *item;
	int n = cJSON_GetArraySize(list);
	if (!cJSON_IsArray(list) || n < 1 || n > LIMIT_TARGETS) {
		parse_wrong(parse, "capture_ids", "is not a list of 1 to 1024 ids");
		return;
	}
	request->ids = calloc((size_t)n, sizeof *request->ids);
	if (!request->ids) {
		parse_wrong(parse, "capture_ids", "does not fit into the daemon's memory");
		return;
	}
	cJSON_ArrayForEach(item, list)
	{
		if (!cJSON_IsString(item) || strlen(item->valuestring) >= REQUEST_ID_BYTES) {
			parse_wrong(parse, "capture_ids", "holds something that is not an id");
			return;
		}
		char *id = request->ids[request->id_count++];
		text_copy(id, REQUEST_ID_BYTES, item->valuestring);
		text_clean(id, strlen(id));
	}
}

void parse_request_filter(struct parse *parse, struct request *request, const cJSON *object)
{
	parse_request_pid(parse, request, object);
	parse_text(parse, object, "name", request->name, sizeof request->name);
	parse_text(parse, object, "job", request->job, sizeof request->job);
	parse_text(parse, object, "label", request->label, sizeof request->label);
	request->limit = parse_number(parse, object, "limit", 1u << 30);
}
