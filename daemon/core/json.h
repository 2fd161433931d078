/* json.h - members of a JSON object that may be null. What is not known is null, never 0. No state. */
#ifndef PROFD_DAEMON_CORE_JSON_H
#define PROFD_DAEMON_CORE_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

void json_add_number(cJSON *object, const char *key, bool known, double value);
/* null for NULL. */
void json_add_text(cJSON *object, const char *key, const char *text);
/* CLOCK_REALTIME ns as RFC 3339; null for 0. */
void json_add_time(cJSON *object, const char *key, uint64_t ns);
/* Adds "error": {"code", "message"}, and returns it. */
cJSON *json_add_error(cJSON *object, const char *code, const char *sentence);

#endif
