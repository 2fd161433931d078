/* json.c - see json.h. */
#include "json.h"

#include "places.h"
#include "texts.h"

#include <sqlite3.h>

/* Longer texts, such as paths of files and names, are cut. */
#define TEXT_BYTES 4096

static void add_text(cJSON *object, const char *key, const char *text)
{
	if (*text)
		cJSON_AddStringToObject(object, key, text);
	else
		cJSON_AddNullToObject(object, key);
}

static void add_known(cJSON *object, const char *key, int64_t value, bool known)
{
	if (known)
		cJSON_AddNumberToObject(object, key, (double)value);
	else
		cJSON_AddNullToObject(object, key);
}

static void add_string(cJSON *object, const char *key, int64_t id, sqlite3 *db)
{
	const struct texts texts = {.db = db};
	char text[TEXT_BYTES];
	texts_get(&texts, (uint32_t)id, text, sizeof text);
	add_text(object, key, text);
}

static void add_interval(cJSON *list, const struct finding_interval *interval, const struct place *place, sqlite3 *db)
{
	cJSON *object = cJSON_CreateObject();
	cJSON_AddNumberToObject(object, "step", (double)interval->step);
	cJSON_AddNumberToObject(object, "start_ns", (double)interval->start);
	cJSON_AddNumberToObject(object, "end_ns", (double)interval->end);
	add_known(object, "thread", interval->thread, interval->thread != 0);
	add_string(object, "name", interval->name, db);
	add_string(object, "operator", interval->outer, db);
	add_string(object, "file", place->file, db);
	add_known(object, "line", place->line, place->line != 0);
	add_string(object, "function", place->function, db);
	add_text(object, "module", place->module ? place->module : "");
	cJSON_AddItemToArray(list, object);
}

/* places: those of the finding's intervals. */
static void add_finding(cJSON *list, const struct finding *finding, const struct place *places, sqlite3 *db)
{
	cJSON *object = cJSON_CreateObject();
	cJSON_AddStringToObject(object, "finding", finding_facts(finding->kind)->word);
	cJSON_AddStringToObject(object, "title", finding_facts(finding->kind)->title);
	cJSON_AddStringToObject(object, "what", finding->what);
	add_text(object, "subject", finding->subject);
	add_known(object, "device", finding->device, finding->device >= 0);
	add_known(object, "step", finding->step, finding->step != 0);
	cJSON_AddNumberToObject(object, "ns", (double)finding->ns);
	cJSON_AddNumberToObject(object, "min_ns", (double)finding->least_ns);
	cJSON_AddNumberToObject(object, "max_ns", (double)finding->most_ns);
	cJSON_AddNumberToObject(object, "share", finding->share);
	cJSON_AddNumberToObject(object, "min", finding->least);
	cJSON_AddNumberToObject(object, "max", finding->most);
	cJSON_AddNumberToObject(object, "win_ns", (double)finding->win_ns);
	cJSON_AddNumberToObject(object, "win", finding->win);
	cJSON_AddStringToObject(object, "evidence", finding->evidence);
	cJSON_AddStringToObject(object, "try", finding->advice);
	cJSON_AddNumberToObject(object, "intervals_total", (double)finding->interval_total);
	if (db) {
		add_text(object, "sql", finding->sql);
		cJSON *intervals = cJSON_AddArrayToObject(object, "intervals");
		for (size_t i = 0; i < finding->interval_count; i++)
			add_interval(intervals, &finding->intervals[i], &places[i], db);
	}
	cJSON_AddItemToArray(list, object);
}

cJSON *findings_json(const struct findings *findings, sqlite3 *db)
{
	struct places places = {0};
	cJSON *object = cJSON_CreateObject();
	if (db)
		places_find(db, findings, &places);
	cJSON_AddStringToObject(object, "verdict", findings->verdict);
	add_text(object, "abstains", findings->abstains);
	add_known(object, "device", findings->device, findings->device >= 0);
	cJSON_AddNumberToObject(object, "steps", (double)findings->judged);
	cJSON_AddNumberToObject(object, "first_step", (double)(findings->first + (findings->last > findings->first)));
	cJSON_AddNumberToObject(object, "last_step", (double)findings->last);
	cJSON_AddNumberToObject(object, "steps_recorded", (double)findings->recorded);
	cJSON_AddBoolToObject(object, "window", findings->window);
	cJSON_AddNumberToObject(object, "step_ns", (double)findings->step_ns);
	cJSON_AddNumberToObject(object, "min_step_ns", (double)findings->least_step_ns);
	cJSON_AddNumberToObject(object, "max_step_ns", (double)findings->most_step_ns);
	cJSON *list = cJSON_AddArrayToObject(object, "findings");
	for (size_t i = 0; i < findings->count; i++)
		add_finding(list, &findings->items[i], places.of[i], db);
	places_free(&places);
	return object;
}
