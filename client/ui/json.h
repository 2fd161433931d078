/* json.h - JSON objects as all verbs print them, and members of objects that came from elsewhere. */
#ifndef PROFD_CLIENT_UI_JSON_H
#define PROFD_CLIENT_UI_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* {"schema": "profd.<kind>/1"} */
cJSON *json_new(const char *kind);
/* Prints one line and frees the object. Returns EXIT_DONE. */
int json_print(cJSON *object);
/* Sorts an array; `order` gets two (cJSON *const *). */
void json_sort(cJSON *array, int (*order)(const void *, const void *));
/* Adds a text that may hold anything; NULL becomes null. */
void json_add_text(cJSON *object, const char *key, const char *text);
/* Adds "pid"; null where it is 0: the process cannot be seen from here. */
void json_add_pid(cJSON *object, int64_t pid);
/* A number, or null where it is not known. */
void json_add_number(cJSON *object, const char *key, bool known, double value);

/* A member of an object; NULL, or `otherwise`, where it is missing, null or of another type. */
const char *json_text(const cJSON *object, const char *key);
double json_number(const cJSON *object, const char *key, double otherwise);

#endif
