/* parse.h - reads members of a request's hostile JSON. The first wrong member makes the error; later ones do not change
 * it. A member that is absent or null is 0, empty or false. Any thread; no state. */
#ifndef PROFD_DAEMON_OPS_PARSE_H
#define PROFD_DAEMON_OPS_PARSE_H

#include "proto/errors.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct request;

struct parse {
	char *sentence;
	size_t sentence_bytes;
	enum error error;
};

/* The request's member `key` is wrong; `what` follows the key's name in the sentence. */
void parse_wrong(struct parse *parse, const char *key, const char *what);
/* NULL if absent; the caller checks the type. */
const cJSON *parse_find(const cJSON *object, const char *key);
uint64_t parse_number(struct parse *parse, const cJSON *object, const char *key, uint64_t max);
/* Control characters become '?'. */
void parse_text(struct parse *parse, const cJSON *object, const char *key, char *to, size_t to_bytes);
bool parse_truth(struct parse *parse, const cJSON *object, const char *key);
/* A list of words of enum collector as a bit set. */
uint32_t parse_collectors(struct parse *parse, const cJSON *object, const char *key);
/* A process id that is the whole item. */
bool parse_pid(const cJSON *item, int32_t *ret);

/* Members that several ops have: "pid"; "capture_ids"; "pid", "name", "job", "label" and "limit" of a list. */
void parse_request_pid(struct parse *parse, struct request *request, const cJSON *object);
/* The same, and the pid must be there. */
void parse_request_one_pid(struct parse *parse, struct request *request, const cJSON *object);
void parse_request_ids(struct parse *parse, struct request *request, const cJSON *object);
void parse_request_filter(struct parse *parse, struct request *request, const cJSON *object);

#endif
