/* steps.c - the breakdown of each step, for the page. */
#include "steps.h"

#include "client/report/query.h"
#include "client/report/verdict_json.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "strip.h"

#include "store/findings/json.h"
#include "store/findings_stored.h"

#include <stdlib.h>

/* More would make the page large, and columns that nobody can tell apart. */
#define MOST_STEPS 1000
/* Each step has the rows of the host and of every device: of many devices there are fewer steps. */
#define MOST_SIDES 3000

static bool may_go_on(void *context)
{
	return bounds_row(context);
}

void page_time_load(struct page_time *ret, const struct reader *reader)
{
	int64_t end;
	int error;
	*ret = (struct page_time){.strip = strip_new(), .kept.computed = true};
	const struct breakdown_listener listener = {strip_take, ret->strip};
	const struct breakdown_watch watch = {.row = may_go_on, .context = reader->bounds, .listener = &listener};
	if (!breakdown_capture_load(reader->db, &watch, &ret->kept.capture, &error)) {
		page_time_free(ret);
		if (error == SQLITE_NOMEM)
			need(NULL);
		report_damaged(reader);
	}
	if (!strip_bounds(ret->strip, &ret->base, &end))
		ret->base = 0;
	/* The listener lives no longer. */
	ret->kept.capture.breakdown.listener = NULL;
}

void page_time_free(struct page_time *time)
{
	verdict_forget(&time->kept);
	time->strip = strip_free(time->strip);
}

cJSON *page_verdict(struct page_time *time, const struct reader *reader)
{
	const struct report_options options = {.kept = &time->kept};
	struct findings findings;
	verdict_read(reader, &options, &findings);
	return need(findings_json(&findings, NULL));
}

cJSON *page_lines(struct page_time *time, const struct reader *reader)
{
	const struct report_options options = {.kept = &time->kept};
	struct breakdown_capture own;
	struct row_lines lines;
	const struct breakdown_capture *capture = verdict_rows(reader, &options, &own);
	verdict_lines(reader, &options, capture, &lines);
	cJSON *json = row_lines_json(reader, NULL, capture, &lines, 0, capture->breakdown.step_count);
	row_lines_free(&lines);
	breakdown_capture_free(&own);
	return json;
}

static void add_rows(cJSON *object, const char *key, const int64_t *values, size_t count)
{
	cJSON *array = need(cJSON_AddArrayToObject(object, key));
	for (size_t i = 0; i < count; i++)
		cJSON_AddItemToArray(array, need(cJSON_CreateNumber((double)values[i])));
}

static void add_names(cJSON *data, const char *key, const struct breakdown_row *rows, size_t count)
{
	cJSON *array = need(cJSON_AddArrayToObject(data, key));
	for (size_t i = 0; i < count; i++) {
		cJSON *row = need(cJSON_CreateObject());
		json_add_text(row, "word", rows[i].word);
		json_add_text(row, "title", rows[i].title);
		cJSON_AddItemToArray(array, row);
	}
}

static cJSON *step_of(const struct page_time *time, size_t index, size_t devices)
{
	const struct breakdown *breakdown = &time->kept.capture.breakdown;
	const struct breakdown_step *step = &breakdown->steps[index];
	cJSON *object = need(cJSON_CreateObject()), *sides = need(cJSON_AddArrayToObject(object, "devices"));
	if (time->kept.capture.window)
		need(cJSON_AddNullToObject(object, "number"));
	else
		need(cJSON_AddNumberToObject(object, "number", (double)time->kept.capture.numbers[index]));
	need(cJSON_AddNumberToObject(object, "start", (double)(step->start - time->base)));
	need(cJSON_AddNumberToObject(object, "end", (double)(step->end - time->base)));
	add_rows(object, "host", step->host, HOST_ROWS);
	for (size_t d = 0; d < devices; d++) {
		const struct breakdown_device_step *at = &breakdown->devices[d].steps[index];
		cJSON *side = need(cJSON_CreateObject());
		add_rows(side, "rows", at->rows, DEVICE_ROWS);
		add_rows(side, "idle", at->idle, IDLE_ROWS);
		cJSON_AddItemToArray(sides, side);
	}
	return object;
}

void page_steps(cJSON *data, const struct page_time *time)
{
	const struct breakdown *breakdown = &time->kept.capture.breakdown;
	size_t devices = time->kept.capture.device ? breakdown->device_count : 0;
	cJSON *steps = need(cJSON_AddArrayToObject(data, "steps")),
	      *numbers = need(cJSON_AddArrayToObject(data, "devices"));
	for (size_t d = 0; d < devices; d++)
		cJSON_AddItemToArray(numbers, need(cJSON_CreateNumber((double)breakdown->devices[d].device)));
	size_t most = MOST_SIDES / (devices + 1) < MOST_STEPS ? MOST_SIDES / (devices + 1) : MOST_STEPS;
	for (size_t i = 0; i < breakdown->step_count && i < most; i++)
		cJSON_AddItemToArray(steps, step_of(time, i, devices));
	need(cJSON_AddNumberToObject(data, "step_count", (double)breakdown->step_count));
	need(cJSON_AddBoolToObject(data, "has_host", breakdown->step_count > 0));
	json_add_text(data, "doubt", devices && time->kept.capture.doubt[0] ? time->kept.capture.doubt : NULL);
	add_names(data, "host_rows", breakdown_host_rows, HOST_ROWS);
	add_names(data, "device_rows", breakdown_device_rows, DEVICE_ROWS);
	add_names(data, "idle_rows", breakdown_idle_rows, IDLE_ROWS);
}
