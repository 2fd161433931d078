/* captures.c - `profd captures`: the captures of all daemons, newest first; with --deleted those that were deleted. */
#include "client/link/collect.h"
#include "client/ui/json.h"
#include "client/ui/listing.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_LIMIT 20
/* What a daemon takes for "all". */
#define ALL (1 << 30)

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
	{"lost", "DROPPED", COLUMN_COUNT, 0},
	{"bytes", "SIZE", COLUMN_BYTES, 0},
	{"step_ns", "STEP", COLUMN_DURATION, 0},
	{"gpu", "GPU", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_TABLE_ONLY},
	{"simulated", "SIMULATED", COLUMN_FLAG, COLUMN_DATA_ONLY},
	{"pin", "PINNED", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_TABLE_ONLY},
	{"pinned", "PINNED", COLUMN_FLAG, COLUMN_DATA_ONLY},
	{"host", "HOST", COLUMN_TEXT, COLUMN_DATA_ONLY},
	{"command", "COMMAND", COLUMN_TEXT, COLUMN_DATA_ONLY},
	{"reason", "REASON", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_WRAP},
};

static const struct listing listing = {"captures", "captures", COUNTED(columns)};

static const struct column deleted_columns[] = {
	{"capture_id", "ID", COLUMN_TEXT, 0},
	{"deleted_at", "DELETED (UTC)", COLUMN_TEXT, 0},
	{"by", "BY", COLUMN_TEXT, 0},
	{"by_uid", "BY UID", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	{"started_at", "STARTED (UTC)", COLUMN_TEXT, 0},
	{"finished_at", "FINISHED", COLUMN_TEXT, COLUMN_DATA_ONLY},
	{"pid", "PID", COLUMN_NUMBER, 0},
	{"uid", "UID", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	{"user", "USER", COLUMN_TEXT, 0},
	{"name", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},
	{"job", "JOB", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_ELASTIC},
	{"rank", "RANK", COLUMN_NUMBER, COLUMN_OPTIONAL},
	{"label", "LABEL", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_ELASTIC},
	{"status", "STATUS", COLUMN_TEXT, 0},
	{"bytes", "SIZE", COLUMN_BYTES, 0},
	{"host", "HOST", COLUMN_TEXT, COLUMN_DATA_ONLY},
	{"reason", "WHY", COLUMN_TEXT, COLUMN_WRAP},
};

static const struct listing deleted_listing = {"deleted", "deleted", COUNTED(deleted_columns)};

/* Newest first, over daemons. RFC 3339 in UTC sorts as text. */
static int by_start(const void *a, const void *b)
{
	const char *one = json_text(*(cJSON *const *)a, "started_at");
	const char *other = json_text(*(cJSON *const *)b, "started_at");

	return strcmp(other ? other : "", one ? one : "");
}

static int by_deletion(const void *a, const void *b)
{
	const char *one = json_text(*(cJSON *const *)a, "deleted_at");
	const char *other = json_text(*(cJSON *const *)b, "deleted_at");

	return strcmp(other ? other : "", one ? one : "");
}

/* Of what is still being recorded nothing has been counted yet. */
static void unset_running(cJSON *captures)
{
	static const char *const counts[] = {"events", "lost", "bytes"};
	cJSON *capture;

	cJSON_ArrayForEach(capture, captures)
	{
		for (size_t i = 0; !json_text(capture, "finished_at") && i < sizeof counts / sizeof *counts; i++) {
			cJSON_DeleteItemFromObjectCaseSensitive(capture, counts[i]);
			need(cJSON_AddNullToObject(capture, counts[i]));
		}
	}
}

/* For a person: "2026-11-21 14:03:11" for "2026-11-21T14:03:11.123456Z", and which GPU was none. */
static void shorten_time(cJSON *capture, const char *key)
{
	const char *at = json_text(capture, key);
	char text[20];

	if (!at)
		return;
	snprintf(text, sizeof text, "%s", at);
	if (strlen(text) > 10 && text[10] == 'T')
		text[10] = ' ';
	cJSON_ReplaceItemInObjectCaseSensitive(capture, key, need(cJSON_CreateString(text)));
}

static void make_readable(cJSON *captures)
{
	cJSON *capture;

	cJSON_ArrayForEach(capture, captures)
	{
		if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(capture, "simulated")))
			need(cJSON_AddStringToObject(capture, "gpu", "simulated"));
		if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(capture, "pinned")))
			need(cJSON_AddStringToObject(capture, "pin", "yes"));
		shorten_time(capture, "started_at");
		shorten_time(capture, "deleted_at");
	}
}

static void print_empty(bool deleted)
{
	if (deleted)
		note("no capture was deleted that the daemon remembers");
	else
		note("there is no capture yet; `profd trigger --pid PID` records one");
}

int command_captures(struct arguments *arguments)
{
	static const char *const filters[] = {"name", "job", "label"};
	enum output_format format = arguments_format(arguments);
	int64_t limit = arguments_number(arguments, "limit", format == FORMAT_TABLE ? TABLE_LIMIT : 0);
	struct daemons daemons;
	cJSON *request, *captures;
	bool filtered = false, more = false, deleted = arguments_has(arguments, "deleted");
	int code = daemons_need(&daemons);

	if (code)
		return code;
	request = request_new(deleted ? "deleted" : "captures");
	/* One more than is shown tells whether there are more. */
	need(cJSON_AddNumberToObject(request, "limit", limit && limit < ALL ? (double)limit + 1 : ALL));
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
	code = collect_rows(&daemons, request, deleted ? "deleted" : "capture", &captures);
	if (code == EXIT_DONE) {
		json_sort(captures, deleted ? by_deletion : by_start);
		if (!deleted)
			unset_running(captures);
		while (limit && cJSON_GetArraySize(captures) > limit) {
			more = true;
			cJSON_DeleteItemFromArray(captures, (int)limit);
		}
		if (format == FORMAT_TABLE)
			make_readable(captures);
		if (cJSON_GetArraySize(captures) == 0 && filtered)
			code = fail(EXIT_NO_TARGET, "no capture matches; `profd captures%s` without a filter lists all",
				    deleted ? " --deleted" : "");
		listing_print(deleted ? &deleted_listing : &listing, captures, format);
		if (cJSON_GetArraySize(captures) == 0 && !filtered && format == FORMAT_TABLE)
			print_empty(deleted);
		if (more && format == FORMAT_TABLE)
			note("there are more; --limit N shows the newest N");
	}
	cJSON_Delete(captures);
	cJSON_Delete(request);
	daemons_deinit(&daemons);
	return code;
}
