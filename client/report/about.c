/* about.c - see about.h. */
#include "about.h"

#include "client/ui/figure.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "recorded.h"

#include "proto/events.h"
#include "proto/quantity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void set_time(cJSON *object, const char *key, int64_t realtime_ns)
{
	time_t seconds = (time_t)(realtime_ns / 1000000000);
	struct tm parts;
	char text[40];
	size_t n;

	if (realtime_ns <= 0 || !gmtime_r(&seconds, &parts)) {
		json_add_text(object, key, NULL);
		return;
	}
	n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(text + n, sizeof text - n, ".%06dZ", (int)(realtime_ns / 1000 % 1000000));
	json_add_text(object, key, text);
}

static void add_number(cJSON *object, const struct reader *reader, const char *key, const char *meta)
{
	int64_t value = reader_meta_int(reader, meta, INT64_MIN);

	if (value == INT64_MIN)
		need(cJSON_AddNullToObject(object, key));
	else
		need(cJSON_AddNumberToObject(object, key, (double)value));
}

/* The file has the source as a word, or as a number of enums.def. If its recording did not end, or an earlier release
 * imported it, only its steps have the source. */
static const char *step_source(struct reader *reader)
{
	const char *text = reader_meta_text(reader, "step_source");
	int64_t number;

	if (!text)
		return step_source_word(
			(unsigned)reader_count(reader, "SELECT source FROM steps LIMIT 1", STEP_SOURCE_COUNT));
	return quantity_number(text, &number) && number <= STEP_SOURCE_COUNT ? step_source_word((unsigned)number)
									     : text;
}

cJSON *about_capture(struct capture *capture)
{
	static const char *const texts[] = {"capture_id", "trigger_id", "name",	  "command", "host",
					    "job",	  "label",	"status", "reason"};
	static const char *const numbers[] = {"cycle",	    "pid",	    "uid",    "rank",
					      "world_size", "steps_wanted", "events", "lost"};
	struct reader *reader = &capture->reader;
	cJSON *object;

	if (capture->row) {
		object = need(cJSON_Duplicate(capture->row, true));
	} else {
		int64_t base = figure_time(reader_meta_int(reader, "base_realtime", 0));

		object = need(cJSON_CreateObject());
		for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
			json_add_text(object, texts[i], reader_meta_text(reader, texts[i]));
		for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
			add_number(object, reader, numbers[i], numbers[i]);
		need(cJSON_AddNumberToObject(object, "steps_recorded", (double)report_step_count(reader)));
		set_time(object, "started_at", base + figure_time(reader_meta_int(reader, "record_start", 0)));
		set_time(object, "finished_at", base + figure_time(reader_meta_int(reader, "record_end", 0)));
		need(cJSON_AddBoolToObject(object, "simulated", report_simulated(reader)));
		add_number(object, reader, "step_ns", "step_during");
	}
	if (!cJSON_HasObjectItem(object, "step_source"))
		json_add_text(object, "step_source", step_source(reader));
	if (!cJSON_HasObjectItem(object, "torch_version"))
		json_add_text(object, "torch_version", reader_meta_text(reader, "torch_version"));
	add_number(object, reader, "derive_ns", "derive");
	return object;
}

cJSON *about_notes(struct reader *reader)
{
	const char *text = reader_meta_text(reader, "notes");
	cJSON *notes = need(cJSON_CreateArray());

	for (const char *at = text ? text : ""; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		char *line = need(strndup(at, strcspn(at, "\n")));

		cJSON_AddItemToArray(notes, need(cJSON_CreateString(line)));
		free(line);
	}
	return notes;
}
