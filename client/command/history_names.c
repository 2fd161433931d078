/* history_names.c - see history_names.h. */
#include "history_names.h"

#include "client/ui/json.h"
#include "client/ui/text.h"

#include <stdlib.h>
#include <string.h>

const struct name_list names_by_device = {"operators", "Operators by self device time a step", "torch",
					  "self_device_ns"};
const struct name_list names_by_cpu = {"operators", "Operators by self CPU time a step", "torch", "self_cpu_ns"};
const struct name_list names_by_kernel = {"kernels", "Kernels by time a step", "cupti", "total_ns"};
const struct name_list names_by_range = {"ranges", "Ranges by self time a step", NULL, "self_ns"};

const cJSON *names_rows(const struct snapshot *snapshot, const struct name_list *list)
{
	return cJSON_GetObjectItemCaseSensitive(snapshot->summary, list->key);
}

bool names_recorded(const struct snapshot *snapshot, const struct name_list *list)
{
	const cJSON *row;

	if (!snapshot->summary || !cJSON_IsArray(names_rows(snapshot, list)))
		return false;
	if (!list->collector)
		return true;
	cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(snapshot->summary, "collectors"))
	{
		const char *name = json_text(row, "collector");

		if (name && strcmp(name, list->collector) == 0)
			return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "on"));
	}
	return false;
}

double names_time(const struct snapshot *snapshot, const struct name_list *list, const char *name)
{
	double steps = json_number(snapshot->capture, "steps_recorded", 0);
	const cJSON *row;

	cJSON_ArrayForEach(row, names_rows(snapshot, list))
	{
		const char *own = json_text(row, "name");

		if (own && strcmp(own, name) == 0 && steps > 0) {
			double time = json_number(row, list->time, -1);

			return time >= 0 ? time / steps : -1;
		}
	}
	return -1;
}

const char *names_top(const struct snapshot *snapshot, const struct name_list *list)
{
	const char *top = NULL;
	double most = 0;
	const cJSON *row;

	cJSON_ArrayForEach(row, names_rows(snapshot, list))
	{
		double time = json_number(row, list->time, 0);

		if (time > most) {
			most = time;
			top = json_text(row, "name");
		}
	}
	return names_recorded(snapshot, list) ? top : NULL;
}

const struct name_list *names_operators(const struct snapshot *snapshot)
{
	return names_recorded(snapshot, &names_by_kernel) ? &names_by_device : &names_by_cpu;
}

bool names_recorded_once(const struct series *series, const struct name_list *list)
{
	for (size_t i = 0; i < series->count; i++)
		if (names_recorded(&series->list[i], list))
			return true;
	return false;
}

void names_set_top(struct table *table, size_t column, const struct snapshot *snapshot, const struct name_list *list)
{
	const char *name = names_top(snapshot, list);

	if (!name)
		return;
	table_set_text(table, column, name);
	table_set(table, column + 1, (int64_t)names_time(snapshot, list, name));
}

static int by_sum(const void *a, const void *b)
{
	const struct named *one = a, *other = b;
	int order = (one->sum < other->sum) - (one->sum > other->sum);

	return order ? order : strcmp(one->name, other->name);
}

double names_times(const struct series *series, const struct name_list *list, const char *name, double *values,
		   double *ret_sum, size_t *ret_listed)
{
	double *known = need(calloc(series->count, sizeof *known)), median;
	size_t n = 0;

	*ret_sum = 0;

	for (size_t i = 0; i < series->count; i++) {
		values[i] = names_recorded(&series->list[i], list) ? names_time(&series->list[i], list, name) : -1;
		if (values[i] < 0)
			continue;
		known[n++] = values[i];
		*ret_sum += values[i];
	}
	*ret_listed = n;
	median = series_median(known, n);
	free(known);
	return median;
}

struct named *names_all(const struct series *series, const struct name_list *list, double *values, size_t *ret_count)
{
	struct named *names = NULL;
	size_t count = 0;

	for (size_t i = 0; i < series->count; i++) {
		const cJSON *row;

		cJSON_ArrayForEach(row, names_rows(&series->list[i], list))
		{
			const char *name = json_text(row, "name");
			size_t n = 0, listed;

			while (name && n < count && strcmp(names[n].name, name) != 0)
				n++;
			if (!name || n < count || json_number(row, list->time, 0) <= 0)
				continue;
			names = need(reallocarray(names, ++count, sizeof *names));
			names[n].name = name;
			names_times(series, list, name, values, &names[n].sum, &listed);
		}
	}
	if (count)
		qsort(names, count, sizeof *names, by_sum);
	*ret_count = count;
	return names;
}
