/* json.c - see json.h. */
#include "json.h"
#include "proto/base/clock.h"

void json_add_number(cJSON *object, const char *key, bool known, double value)
{
	if (known)
		cJSON_AddNumberToObject(object, key, value);
	else
		cJSON_AddNullToObject(object, key);
}

void json_add_text(cJSON *object, const char *key, const char *text)
{
	if (text)
		cJSON_AddStringToObject(object, key, text);
	else
		cJSON_AddNullToObject(object, key);
}

void json_add_time(cJSON *object, const char *key, uint64_t ns)
{
	char text[TIME_TEXT_BYTES];
	time_text(ns, text);
	json_add_text(object, key, ns ? text : NULL);
}

cJSON *json_add_error(cJSON *object, const char *code, const char *sentence)
{
	cJSON *error = cJSON_AddObjectToObject(object, "error");
	cJSON_AddStringToObject(error, "code", code);
	cJSON_AddStringToObject(error, "message", sentence);
	return error;
}
