/* verdict_json.c - see verdict_json.h. */
#include "verdict_json.h"

#include "filter.h"
#include "query.h"
#include "recorded.h"
#include "verdict.h"
#include "waits.h"

#include "client/ui/json.h"
#include "client/ui/text.h"

#include "store/findings/json.h"

#include <stdlib.h>

static void add_rows(cJSON *object, const char *key, const int64_t *values, const struct breakdown_row *rows,
		     size_t count)
{
	cJSON *list = need(cJSON_AddObjectToObject(object, key));
	for (size_t row = 0; row < count; row++)
		if (values[row])
			need(cJSON_AddNumberToObject(list, rows[row].word, (double)values[row]));
}

/* The sources of the JSON of steps. */
struct source {
	const struct reader *reader;
	const struct filter *filter;
	const struct breakdown_capture *capture;
	struct breakdown_capture own;
	struct waits waits;
};

static void add_device(cJSON *list, const struct source *source, size_t index, size_t step)
{
	const struct breakdown_device *device = &source->capture->breakdown.devices[index];
	const struct breakdown_device_step *at = &device->steps[step];
	cJSON *object = need(cJSON_CreateObject()), *hidden;
	need(cJSON_AddNumberToObject(object, "device", (double)device->device));
	add_rows(object, "rows", at->rows, breakdown_device_rows, DEVICE_ROWS);
	hidden = need(cJSON_AddObjectToObject(object, "hidden"));
	need(cJSON_AddNumberToObject(hidden, "communication", (double)at->hidden_communication));
	need(cJSON_AddNumberToObject(hidden, "copies", (double)at->hidden_copies));
	add_rows(object, "idle", at->idle, breakdown_idle_rows, IDLE_ROWS);
	/* It is known after which calls a device was idle only if calls were recorded. */
	if (*source->capture->doubt || !report_attributed(source->reader)) {
		need(cJSON_AddNullToObject(object, "after_sync_ns"));
		need(cJSON_AddNullToObject(object, "after_sync"));
	} else {
		need(cJSON_AddNumberToObject(object, "after_sync_ns", (double)at->after_sync));
		cJSON_AddItemToObject(object, "after_sync", waits_json(&source->waits, source->reader, index, step));
	}
	cJSON_AddItemToArray(list, object);
}

static cJSON *step_json(const struct source *source, size_t step)
{
	const struct breakdown *breakdown = &source->capture->breakdown;
	cJSON *object = need(cJSON_CreateObject()), *host, *devices;
	need(cJSON_AddNumberToObject(object, "step", (double)step + 1));
	need(cJSON_AddNumberToObject(object, "wall_ns",
				     (double)(breakdown->steps[step].end - breakdown->steps[step].start)));
	host = need(cJSON_AddObjectToObject(object, "host"));
	if (breakdown->step_thread)
		need(cJSON_AddNumberToObject(host, "thread", breakdown->step_thread));
	else
		need(cJSON_AddNullToObject(host, "thread"));
	add_rows(host, "rows", breakdown->steps[step].host, breakdown_host_rows, HOST_ROWS);
	if (!source->capture->device) {
		need(cJSON_AddNullToObject(object, "devices"));
		return object;
	}
	devices = need(cJSON_AddArrayToObject(object, "devices"));
	for (size_t d = 0; d < breakdown->device_count; d++)
		if (filter_has_device(source->filter, breakdown->devices[d].device))
			add_device(devices, source, d, step);
	return object;
}

static bool has_waits(const struct breakdown *breakdown)
{
	for (size_t d = 0; d < breakdown->device_count; d++)
		for (size_t i = 0; i < breakdown->step_count; i++)
			if (breakdown->devices[d].steps[i].after_sync)
				return true;
	return false;
}

/* No file says after which waits a device was idle. If there was such a wait, the breakdown is computed. */
static void read_source(struct source *source, const struct report_options *options)
{
	source->capture = verdict_rows(source->reader, options, &source->own);
	if (!has_waits(&source->capture->breakdown))
		return;
	if (!source->capture->breakdown.activity) {
		breakdown_capture_free(&source->own);
		source->capture = verdict_intervals(source->reader, options, &source->own);
	}
	source->waits = waits_of(source->capture);
}

static void add_name(cJSON *object, const char *key, sqlite3_stmt *names, int64_t id)
{
	sqlite3_bind_int64(names, 1, id);
	json_add_text(object, key,
		      sqlite3_step(names) == SQLITE_ROW ? (const char *)sqlite3_column_text(names, 0) : NULL);
	sqlite3_reset(names);
}

/* Adds the lines of rows that have any time. */
static void add_lines(cJSON *object, const char *key, const struct row_line *lines, const bool *filled,
		      const struct breakdown_row *rows, size_t count, sqlite3_stmt *names)
{
	cJSON *list = need(cJSON_AddObjectToObject(object, key));
	for (size_t row = 0; row < count; row++) {
		if (!filled[row])
			continue;
		if (!lines || !lines[row].file) {
			need(cJSON_AddNullToObject(list, rows[row].word));
			continue;
		}
		cJSON *line = need(cJSON_AddObjectToObject(list, rows[row].word));
		add_name(line, "file", names, lines[row].file);
		if (lines[row].line)
			need(cJSON_AddNumberToObject(line, "line", (double)lines[row].line));
		else
			need(cJSON_AddNullToObject(line, "line"));
		add_name(line, "function", names, lines[row].function);
		need(cJSON_AddNumberToObject(line, "share", lines[row].share));
	}
}

cJSON *row_lines_json(const struct reader *reader, const struct filter *filter, const struct breakdown_capture *capture,
		      const struct row_lines *lines, size_t first, size_t last)
{
	const struct breakdown *breakdown = &capture->breakdown;
	if (!lines->recorded)
		return need(cJSON_CreateNull());
	sqlite3_stmt *names = report_prepare(reader, "SELECT text FROM strings WHERE id = ?1");
	cJSON *object = need(cJSON_CreateObject());
	bool host[HOST_ROWS] = {false};
	for (size_t i = first; i < last; i++)
		for (size_t row = 0; row < HOST_ROWS; row++)
			host[row] |= breakdown->steps[i].host[row] != 0;
	add_lines(object, "host", lines->host, host, breakdown_host_rows, HOST_ROWS, names);
	cJSON *devices = need(cJSON_AddArrayToObject(object, "devices"));
	for (size_t d = 0; capture->device && d < breakdown->device_count; d++) {
		bool idle[IDLE_ROWS] = {false};
		if (!filter_has_device(filter, breakdown->devices[d].device))
			continue;
		for (size_t i = first; i < last; i++)
			for (size_t row = 0; row < IDLE_ROWS; row++)
				idle[row] |= breakdown->devices[d].steps[i].idle[row] != 0;
		cJSON *device = need(cJSON_CreateObject());
		need(cJSON_AddNumberToObject(device, "device", (double)breakdown->devices[d].device));
		add_lines(device, "idle", verdict_idle_lines(lines, d), idle, breakdown_idle_rows, IDLE_ROWS, names);
		cJSON_AddItemToArray(devices, device);
	}
	sqlite3_finalize(names);
	return object;
}

static cJSON *lines_json(const struct source *source, const struct report_options *options)
{
	const size_t count = source->capture->breakdown.step_count,
		     first = options->step ? (size_t)(options->step - 1) : 0,
		     last = options->step && first < count ? first + 1 : count;
	struct row_lines lines;
	verdict_lines(source->reader, options, source->capture, &lines);
	cJSON *json = row_lines_json(source->reader, source->filter, source->capture, &lines, first, last);
	row_lines_free(&lines);
	return json;
}

cJSON *breakdown_json(const struct reader *reader, const struct report_options *options)
{
	struct source source = {.reader = reader, .filter = options->filter};
	cJSON *object = need(cJSON_CreateObject()), *steps = need(cJSON_AddArrayToObject(object, "steps"));
	read_source(&source, options);
	const struct breakdown_capture *capture = source.capture;
	for (size_t i = 0; i < capture->breakdown.step_count; i++)
		if (!options->step || (int64_t)i + 1 == options->step)
			cJSON_AddItemToArray(steps, step_json(&source, i));
	cJSON_AddItemToObject(object, "lines", lines_json(&source, options));
	json_add_text(object, "doubt", capture->doubt[0] ? capture->doubt : NULL);
	waits_free(&source.waits);
	breakdown_capture_free(&source.own);
	return object;
}

cJSON *verdict_json(const struct reader *reader, const struct report_options *options)
{
	struct findings findings;
	cJSON *json;
	verdict_read(reader, options, &findings);
	json = need(findings_json(&findings, reader->db));
	return json;
}
