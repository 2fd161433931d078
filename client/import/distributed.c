/* distributed.c - see distributed.h. */
#include "distributed.h"

#include "proto/base/facts.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* A group of 10,000 processes takes 60 kB. */
#define BYTES_MAX (1u << 20)

static int64_t number(const cJSON *object, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
	bool whole = cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < INT32_MAX;
	return whole ? (int64_t)item->valuedouble : -1;
}

void distributed_read(struct kineto_about *about)
{
	size_t n = about->distributed ? strlen(about->distributed) : 0;
	if (n)
		text_clean(about->distributed, n);
	cJSON *object = n && n <= BYTES_MAX ? cJSON_ParseWithOpts(about->distributed, NULL, 1) : NULL;
	if (cJSON_IsObject(object)) {
		about->rank = number(object, "rank");
		about->world_size = number(object, "world_size");
	} else {
		free(about->distributed);
		about->distributed = NULL;
	}
	cJSON_Delete(object);
}
