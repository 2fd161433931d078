/* request.c - see request.h. Any thread; no state. */
#include "request.h"
#include "ops.h"
#include "parse.h"
#include "proto/version.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum error request_parse(struct request *ret, const char *packet, size_t n, char *sentence, size_t sentence_bytes)
{
	struct parse parse = {sentence, sentence_bytes, ERROR_NONE};
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
	parse_text(&parse, object, "op", word, sizeof word);
	uint64_t major = parse_number(&parse, object, "major", UINT32_MAX);
	ret->op = op_find(word);
	if (!parse.error && major != PROTOCOL_MAJOR) {
		parse.error = ERROR_VERSION;
		snprintf(sentence, sentence_bytes,
			 "the client speaks protocol %llu, this daemon (profd %s) protocol %d; use a client and a "
			 "daemon of the same release",
			 (unsigned long long)major, PROFD_VERSION, PROTOCOL_MAJOR);
	}
	if (!parse.error && !ret->op)
		parse_wrong(&parse, "op", "is not one that this daemon knows; it may be older than the client");
	if (!parse.error && ret->op->parse)
		ret->op->parse(&parse, ret, object);
	cJSON_Delete(object);
	return parse.error;
}

void request_deinit(struct request *request)
{
	free(request->trigger.pids);
	free(request->ids);
	memset(request, 0, sizeof *request);
}
