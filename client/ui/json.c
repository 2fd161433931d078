/* json.c - see json.h. */
#include "json.h"

#include "failure.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

cJSON *json_new(const char *kind)
{
	cJSON *object = need(cJSON_CreateObject());
	char schema[48];

	snprintf(schema, sizeof schema, "profd.%s/1", kind);
	need(cJSON_AddStringToObject(object, "schema", schema));
	return object;
}

int json_print(cJSON *object)
{
	char *text = need(cJSON_PrintUnformatted(object));

	puts(text);
	free(text);
	cJSON_Delete(object);
	return EXIT_DONE;
}

void json_sort(cJSON *array, int (*order)(const void *, const void *))
{
	size_t count = (size_t)cJSON_GetArraySize(array);
	cJSON **items = need(calloc(count + 1, sizeof *items));

	for (size_t i = 0; i < count; i++)
		items[i] = cJSON_DetachItemFromArray(array, 0);
	qsort(items, count, sizeof *items, order);
	for (size_t i = 0; i < count; i++)
		cJSON_AddItemToArray(array, items[i]);
	free(items);
}

void json_add_number(cJSON *object, const char *key, bool known, double value)
{
	if (known)
		need(cJSON_AddNumberToObject(object, key, value));
	else
		need(cJSON_AddNullToObject(object, key));
}

void json_add_pid(cJSON *object, int64_t pid)
{
	json_add_number(object, "pid", pid > 0, (double)pid);
}

void json_add_text(cJSON *object, const char *key, const char *text)
{
	char *clean;

	if (!text) {
		need(cJSON_AddNullToObject(object, key));
		return;
	}
	clean = text_utf8(text);
	need(cJSON_AddStringToObject(object, key, clean));
	free(clean);
}

const char *json_text(const cJSON *object, const char *key)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

double json_number(const cJSON *object, const char *key, double otherwise)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	/* Callers turn it into a 64-bit number. Our daemons send no larger ones. */
	return !cJSON_IsNumber(item) ? otherwise : fmin(fmax(item->valuedouble, -9e18), 9e18);
}
