/* captures.c - `profd captures`: the catalogues of all daemons, newest first. */
#include "../command.h"
#include "../output.h"
#include "../text.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_LIMIT 20

static const struct column columns[] = {
	{"capture_id", "ID", COLUMN_TEXT, 0},
	{"trigger_id", "TRIGGER", COLUMN_TEXT, COLUMN_DATA_ONLY},
	{"cycle", "CYCLE", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	{"started_at", "STARTED (UTC)", COLUMN_TEXT, 0},
	{"finished_at", "FINISHED", COLUMN_TEXT, COLUMN_DATA_ONLY},
	{"pid", "PID", COLUMN_NUMBER, 0},
	{"user", "USER", COLUMN_TEXT, 0},
	{"name", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},
	{"job", "JOB", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_ELASTIC},
	{"rank", "RANK", COLUMN_NUMBER, COLUMN_OPTIONAL},
	{"label", "LABEL", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_ELASTIC},
	{"status", "STATUS", COLUMN_TEXT, 0},
	{"steps_recorded", "STEPS", COLUMN_COUNT, 0},
	{"steps_wanted", "OF", COLUMN_COUNT, COLUMN_DATA_ONLY},
	{"events", "EVENTS", COLUMN_COUNT, 0},
	{"lost", "LOST", COLUMN_COUNT, 0},
	{"bytes", "SIZE", COLUMN_BYTES, 0},
	{"step_ns", "STEP", COLUMN_DURATION, 0},
	{"gpu", "GPU", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_TABLE_ONLY},
	{"simulated", "SIMULATED", COLUMN_FLAG, COLUMN_DATA_ONLY},
	{"host", "HOST", COLUMN_TEXT, COLUMN_DATA_ONLY},
	{"command", "COMMAND", COLUMN_TEXT, COLUMN_DATA_ONLY},
	{"reason", "REASON", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_WRAP},
};

static const struct listing listing = {"captures", "captures", columns, sizeof columns / sizeof *columns};

/* Newest first, over daemons. RFC 3339 in UTC sorts as text. */
static int by_start(const void *a, const void *b)
{
	const char *one = reply_text(*(cJSON *const *)a, "started_at");
	const char *other = reply_text(*(cJSON *const *)b, "started_at");

	return strcmp(other ? other : "", one ? one : "");
}

/* Of what is still being recorded nothing has been counted yet. */
static void unset_running(cJSON *captures)
{
	static const char *const counts[] = {"events", "lost", "bytes"};
	cJSON *capture;

	cJSON_ArrayForEach(capture, captures)
	{
		for (size_t i = 0; !reply_text(capture, "finished_at") && i < sizeof counts / sizeof *counts; i++) {
			cJSON_DeleteItemFromObjectCaseSensitive(capture, counts[i]);
			need(cJSON_AddNullToObject(capture, counts[i]));
		}
	}
}

/* For a person: "2026-11-21 14:03:11" for "2026-11-21T14:03:11.123456Z", and which GPU was none. */
static void make_readable(cJSON *captures)
{
	cJSON *capture;

	cJSON_ArrayForEach(capture, captures)
	{
		const char *at = reply_text(capture, "started_at");
		char text[20];

		if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(capture, "simulated")))
			need(cJSON_AddStringToObject(capture, "gpu", "simulated"));
		if (!at)
			continue;
		snprintf(text, sizeof text, "%s", at);
		if (strlen(text) > 10 && text[10] == 'T')
			text[10] = ' ';
		cJSON_ReplaceItemInObjectCaseSensitive(capture, "started_at", need(cJSON_CreateString(text)));
	}
}

int command_captures(struct arguments *arguments)
{
	static const char *const filters[] = {"name", "job", "label"};
	enum output_format format = arguments_format(arguments);
	int64_t limit = arguments_number(arguments, "limit", format == FORMAT_TABLE ? TABLE_LIMIT : 0);
	struct daemons daemons;
	cJSON *request, *captures;
	bool filtered = false, more = false;
	int code = daemons_need(&daemons);

	if (code)
		return code;
	request = request_new("captures");
	/* One more than is shown tells whether there are more. */
	if (limit)
		need(cJSON_AddNumberToObject(request, "limit", (double)limit + 1));
	if (arguments_has(arguments, "pid")) {
		need(cJSON_AddNumberToObject(request, "pid", (double)arguments_number(arguments, "pid", 0)));
		filtered = true;
	}
	for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
		const char *text = arguments_text(arguments, filters[i], NULL);

		if (text)
			need(cJSON_AddStringToObject(request, filters[i], text));
		filtered = filtered || text;
	}
	code = listing_query(&daemons, request, "capture", &captures);
	if (code == EXIT_DONE) {
		json_sort(captures, by_start);
		unset_running(captures);
		while (limit && cJSON_GetArraySize(captures) > limit) {
			more = true;
			cJSON_DeleteItemFromArray(captures, (int)limit);
		}
		if (format == FORMAT_TABLE)
			make_readable(captures);
		if (cJSON_GetArraySize(captures) == 0 && filtered)
			code = fail(EXIT_NO_TARGET, "no capture matches; `profd captures` without a filter lists all");
		listing_print(&listing, captures, format);
		if (cJSON_GetArraySize(captures) == 0 && !filtered && format == FORMAT_TABLE)
			note("there is no capture yet; `profd trigger --pid PID` records one");
		if (more && format == FORMAT_TABLE)
			note("there are more; --limit N shows the newest N");
	}
	cJSON_Delete(captures);
	cJSON_Delete(request);
	daemons_deinit(&daemons);
	return code;
}
