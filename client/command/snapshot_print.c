/* snapshot_print.c - see snapshot_print.h. */
#include "snapshot_print.h"

#include "client/snapshot/outcome.h"
#include "client/ui/json.h"
#include "client/ui/table.h"
#include "client/ui/text.h"

#include <stdio.h>

static const struct column columns[] = {
	{"job", "", COLUMN_TEXT, 0},
	{"name", "", COLUMN_TEXT, 0},
	{"user", "", COLUMN_TEXT, 0},
	{"uid", "", COLUMN_NUMBER, 0},
	{"pid", "", COLUMN_NUMBER, 0},
	{"rank", "", COLUMN_NUMBER, 0},
	{"outcome", "", COLUMN_TEXT, 0},
	{"code", "", COLUMN_TEXT, 0},
	{"reason", "", COLUMN_TEXT, 0},
	{"capture_id", "", COLUMN_TEXT, 0},
	{"steps_recorded", "", COLUMN_COUNT, 0},
	{"step_ns", "", COLUMN_DURATION, 0},
	{"idle_step_ns", "", COLUMN_DURATION, 0},
	{"device_busy_percent", "", COLUMN_PERCENT, 0},
	{"history", "", COLUMN_COUNT, 0},
	{"history_median_ns", "", COLUMN_DURATION, 0},
};

static void add_row(struct table *table, const struct member *member)
{
	table_add(table);
	for (size_t c = 0; c < 6; c++)
		table_set_member(table, c, member->process, columns[c].key);
	table_set_text(table, 6, snapshot_outcome_word(member->outcome));
	table_set_text(table, 7, *member->word ? member->word : NULL);
	table_set_text(table, 8, *member->why ? member->why : NULL);
	table_set_text(table, 9, *member->id ? member->id : NULL);
	table_set_member(table, 10, member->captured, "steps_recorded");
	if (member->step > 0)
		table_set(table, 11, member->step);
	if (member->idle_step > 0)
		table_set(table, 12, member->idle_step);
	if (member->busy >= 0)
		table_set_real(table, 13, member->busy);
	if (member->history >= 0)
		table_set(table, 14, member->history);
	if (member->median > 0)
		table_set(table, 15, (int64_t)member->median);
}

void snapshot_print_csv(const struct unit *units, size_t count)
{
	struct table *table = table_new(COUNTED(columns));

	for (size_t u = 0; u < count; u++)
		for (size_t i = 0; i < units[u].count; i++)
			add_row(table, &units[u].members[i]);
	table_csv(table, stdout, 0);
	table_free(table);
}

void snapshot_print_json(const struct unit *units, size_t count, const struct daemons *daemons, const char *label)
{
	cJSON *object = json_new("snapshot");
	cJSON *jobs, *deleted = need(cJSON_CreateArray());
	size_t sums[OUTCOME_FAILED + 1] = {0};

	json_add_text(object, "label", label);
	jobs = need(cJSON_AddArrayToObject(object, "jobs"));
	for (size_t u = 0; u < count; u++) {
		const struct unit *unit = &units[u];
		const cJSON *first = unit->members[0].process, *id;
		cJSON *job = need(cJSON_CreateObject());
		struct table *table = table_new(COUNTED(columns));

		json_add_text(job, "job", json_text(first, "job"));
		json_add_text(job, "user", json_text(first, "user"));
		json_add_text(job, "daemon", daemons->list[unit->daemon].path);
		if (unit->at_step)
			cJSON_AddNumberToObject(job, "at_step", (double)unit->at_step);
		else
			cJSON_AddNullToObject(job, "at_step");
		json_add_text(job, "together", *unit->together ? unit->together : NULL);
		json_add_text(job, "outcome", snapshot_outcome_word(snapshot_outcome(unit)));
		for (size_t i = 0; i < unit->count; i++)
			add_row(table, &unit->members[i]);
		cJSON_AddItemToObject(job, "processes", table_json(table, 0));
		table_free(table);
		cJSON_AddItemToArray(jobs, job);
		sums[snapshot_outcome(unit)]++;
		cJSON_ArrayForEach(id, unit->deleted)
		{
			cJSON_AddItemToArray(deleted, need(cJSON_Duplicate(id, true)));
		}
	}
	for (enum outcome o = OUTCOME_RECORDED; o <= OUTCOME_FAILED; o++)
		need(cJSON_AddNumberToObject(object, snapshot_outcome_word(o), (double)sums[o]));
	cJSON_AddItemToObject(object, "deleted", deleted);
	json_print(object);
}
