/* history_data.c - see history_data.h. */
#include "history_data.h"

#include "client/ui/json.h"
#include "client/ui/text.h"

#include <math.h>
#include <stdio.h>

static const struct column csv_columns[] = {
	{"job", "", COLUMN_TEXT, 0},
	{"name", "", COLUMN_TEXT, 0},
	{"user", "", COLUMN_TEXT, 0},
	{"rank", "", COLUMN_NUMBER, 0},
	{"pid", "", COLUMN_NUMBER, 0},
	{"capture_id", "", COLUMN_TEXT, 0},
	{"label", "", COLUMN_TEXT, 0},
	{"started_at", "", COLUMN_TEXT, 0},
	{"status", "", COLUMN_TEXT, 0},
	{"steps_recorded", "", COLUMN_COUNT, 0},
	{"step_ns", "", COLUMN_DURATION, 0},
	{"idle_step_ns", "", COLUMN_DURATION, 0},
	{"step_change_percent", "", COLUMN_PERCENT, 0},
	{"device_busy_percent", "", COLUMN_PERCENT, 0},
	{"top_operator", "", COLUMN_TEXT, 0},
	{"top_operator_step_ns", "", COLUMN_DURATION, 0},
	{"top_kernel", "", COLUMN_TEXT, 0},
	{"top_kernel_step_ns", "", COLUMN_DURATION, 0},
};

void history_print_csv(const struct series *series, size_t count)
{
	struct table *table = table_new(COUNTED(csv_columns));

	for (size_t s = 0; s < count; s++)
		for (size_t i = 0; i < series[s].count; i++) {
			const struct snapshot *one = &series[s].list[i];

			table_add(table);
			for (size_t c = 0; c < 10; c++)
				table_set_member(table, c, one->capture, csv_columns[c].key);
			if (one->step >= 0)
				table_set(table, 10, (int64_t)one->step);
			if (one->idle > 0)
				table_set(table, 11, (int64_t)one->idle);
			if (one->step >= 0 && series[s].step_median > 0)
				table_set_real(table, 12, (one->step / series[s].step_median - 1) * 100);
			if (one->busy >= 0)
				table_set_real(table, 13, one->busy);
			names_set_top(table, 14, one, names_operators(one));
			names_set_top(table, 16, one, &names_by_kernel);
		}
	table_csv(table, stdout, 0);
	table_free(table);
}

static void add_change(cJSON *object, const struct series *series)
{
	cJSON *change;

	if (isnan(series->since_p)) {
		need(cJSON_AddNullToObject(object, "change_p"));
		need(cJSON_AddNullToObject(object, "change"));
		return;
	}
	need(cJSON_AddNumberToObject(object, "change_p", series->since_p));
	if (!series->since) {
		need(cJSON_AddNullToObject(object, "change"));
		return;
	}
	change = need(cJSON_AddObjectToObject(object, "change"));
	json_add_text(change, "since", json_text(series->list[series->since].capture, "capture_id"));
	json_add_text(change, "word", series->step_since > series->step_before ? "slower" : "faster");
	need(cJSON_AddNumberToObject(change, "before_ns", round(series->step_before)));
	need(cJSON_AddNumberToObject(change, "since_ns", round(series->step_since)));
}

static void add_number(cJSON *object, const char *key, bool known, double value)
{
	if (known)
		need(cJSON_AddNumberToObject(object, key, round(value * 1000) / 1000));
	else
		need(cJSON_AddNullToObject(object, key));
}

static void add_member(cJSON *object, const cJSON *from, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, key);

	cJSON_AddItemToObject(object, key, need(item ? cJSON_Duplicate(item, true) : cJSON_CreateNull()));
}

static void add_list(cJSON *object, const struct snapshot *snapshot, const struct name_list *list,
		     const char *const *keys)
{
	cJSON *array;
	const cJSON *row;

	if (!names_recorded(snapshot, list)) {
		need(cJSON_AddNullToObject(object, list->key));
		return;
	}
	array = need(cJSON_AddArrayToObject(object, list->key));
	cJSON_ArrayForEach(row, names_rows(snapshot, list))
	{
		cJSON *one = need(cJSON_CreateObject());

		for (size_t i = 0; keys[i]; i++)
			add_member(one, row, keys[i]);
		cJSON_AddItemToArray(array, one);
	}
}

static cJSON *snapshot_json(const struct series *series, const struct snapshot *one)
{
	static const char *const operators[] = {"name", "calls", "self_cpu_ns", "self_device_ns", NULL};
	static const char *const kernels[] = {"name", "calls", "total_ns", NULL};
	static const char *const ranges[] = {"name", "calls", "self_ns", NULL};
	static const char *const facts[] = {"capture_id", "trigger_id", "pid",	     "label",
					    "started_at", "status",	"simulated", "steps_recorded"};
	cJSON *object = need(cJSON_CreateObject());

	for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
		add_member(object, one->capture, facts[i]);
	add_number(object, "step_ns", one->step >= 0, one->step);
	add_number(object, "idle_step_ns", one->idle > 0, one->idle);
	add_number(object, "step_change_percent", one->step >= 0 && series->step_median > 0,
		   series->step_median > 0 ? (one->step / series->step_median - 1) * 100 : 0);
	add_number(object, "device_busy_percent", one->busy >= 0, one->busy);
	add_list(object, one, &names_by_cpu, operators);
	add_list(object, one, &names_by_kernel, kernels);
	add_list(object, one, &names_by_range, ranges);
	return object;
}

void history_print_json(const struct series *series, size_t count, const char *label)
{
	cJSON *object = json_new("history"), *array;

	json_add_text(object, "label", label);
	array = need(cJSON_AddArrayToObject(object, "series"));
	for (size_t s = 0; s < count; s++) {
		cJSON *one = need(cJSON_CreateObject()), *list;
		const cJSON *newest = series[s].list[series[s].count - 1].capture;

		json_add_text(one, "job", series[s].who.job);
		json_add_text(one, "name", series[s].who.name);
		add_member(one, newest, "user");
		add_member(one, newest, "uid");
		add_number(one, "rank", series[s].who.rank >= 0, (double)series[s].who.rank);
		add_number(one, "pid", series[s].who.pid != 0, (double)series[s].who.pid);
		add_number(one, "step_median_ns", series[s].step_median >= 0, series[s].step_median);
		add_change(one, &series[s]);
		add_number(one, "device_busy_median_percent", series[s].busy_median >= 0, series[s].busy_median);
		list = need(cJSON_AddArrayToObject(one, "snapshots"));
		for (size_t i = 0; i < series[s].count; i++)
			cJSON_AddItemToArray(list, snapshot_json(&series[s], &series[s].list[i]));
		cJSON_AddItemToArray(array, one);
	}
	json_print(object);
}
