/* fuzz_client_series.c - captures of one job over time, as a daemon tells them: rows and summaries of any JSON. Which belong together,
 * which are too many, medians and lines, and the factor of --if-slower-than. */
#include "client/snapshot/series.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void look_at(const cJSON *captures, int64_t keep)
{
	const cJSON *capture;
	size_t count = 0;
	double *values = calloc((size_t)cJSON_GetArraySize(captures) + 1, sizeof *values);

	if (!values)
		return;
	cJSON_ArrayForEach(capture, captures)
	{
		struct who who = who_of(capture, true), any = who_of(capture, false);
		cJSON *surplus = series_surplus(captures, &any, keep);

		if (!who_same(&who, &who) || !who_same(&any, &who))
			abort();
		if (cJSON_GetArraySize(surplus) > cJSON_GetArraySize(captures))
			abort();
		cJSON_Delete(surplus);
		series_needs_pid(captures, &any);
		values[count++] =
			(double)series_idle_step(capture, cJSON_GetObjectItemCaseSensitive(capture, "summary"));
		if (values[count - 1] < 0)
			abort();
	}
	for (int unicode = 0; unicode < 2; unicode++)
		free(series_sparkline(values, count, unicode));
	series_median(values, count);
	free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	double factor;
	char *text;
	cJSON *captures;

	if (!n)
		return 0;
	text = malloc(n);
	if (!text)
		return 0;
	memcpy(text, data + 1, n - 1);
	text[n - 1] = 0;
	if (series_parse_factor(text, &factor) && !(factor >= 1))
		abort();
	captures = cJSON_ParseWithLength(text, n - 1);
	if (cJSON_IsArray(captures) && cJSON_GetArraySize(captures) < 200)
		look_at(captures, data[0]);
	cJSON_Delete(captures);
	free(text);
	return 0;
}
