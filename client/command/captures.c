/* captures.c - `profd captures`: the catalogues of all daemons, newest first. */
#include "../command.h"
#include "../output.h"
#include "../text.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_LIMIT 20

enum {
	C_ID,
	C_TRIGGER,
	C_CYCLE,
	C_STARTED,
	C_FINISHED,
	C_PID,
	C_USER,
	C_NAME,
	C_JOB,
	C_RANK,
	C_LABEL,
	C_STATUS,
	C_STEPS,
	C_WANTED,
	C_EVENTS,
	C_LOST,
	C_BYTES,
	C_STEP,
	C_SIMULATED,
	C_HOST,
	C_COMMAND,
	C_REASON
};

static const struct column columns[] = {
	[C_ID] = {"capture_id", "ID", COLUMN_TEXT, 0},
	[C_TRIGGER] = {"trigger_id", "TRIGGER", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[C_CYCLE] = {"cycle", "CYCLE", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	[C_STARTED] = {"started_at", "STARTED (UTC)", COLUMN_TEXT, 0},
	[C_FINISHED] = {"finished_at", "FINISHED", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[C_PID] = {"pid", "PID", COLUMN_NUMBER, 0},
	[C_USER] = {"user", "USER", COLUMN_TEXT, 0},
	[C_NAME] = {"name", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},
	[C_JOB] = {"job", "JOB", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_ELASTIC},
	[C_RANK] = {"rank", "RANK", COLUMN_NUMBER, COLUMN_OPTIONAL},
	[C_LABEL] = {"label", "LABEL", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_ELASTIC},
	[C_STATUS] = {"status", "STATUS", COLUMN_TEXT, 0},
	[C_STEPS] = {"steps_recorded", "STEPS", COLUMN_COUNT, 0},
	[C_WANTED] = {"steps_wanted", "OF", COLUMN_COUNT, COLUMN_DATA_ONLY},
	[C_EVENTS] = {"events", "EVENTS", COLUMN_COUNT, 0},
	[C_LOST] = {"lost", "LOST", COLUMN_COUNT, 0},
	[C_BYTES] = {"bytes", "SIZE", COLUMN_BYTES, 0},
	[C_STEP] = {"step_ns", "STEP", COLUMN_DURATION, 0},
	[C_SIMULATED] = {"simulated", "SIMULATED", COLUMN_FLAG, COLUMN_DATA_ONLY},
	[C_HOST] = {"host", "HOST", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[C_COMMAND] = {"command", "COMMAND", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[C_REASON] = {"reason", "REASON", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_WRAP},
};

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

/* "2026-11-21T14:03:11.123456Z" as a person reads it. */
static void set_time(struct table *table, const char *at)
{
	char text[20];

	if (!at)
		return;
	snprintf(text, sizeof text, "%s", at);
	if (text[0] && strlen(text) > 10 && text[10] == 'T')
		text[10] = ' ';
	table_set_text(table, C_STARTED, text);
}

static struct table *tabulate(const cJSON *captures, bool people)
{
	struct table *table = table_new(columns, sizeof columns / sizeof *columns);
	const cJSON *capture;

	cJSON_ArrayForEach(capture, captures)
	{
		table_add(table);
		for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
			table_set_member(table, c, capture, columns[c].key);
		if (people)
			set_time(table, reply_text(capture, "started_at"));
	}
	return table;
}

int command_captures(struct arguments *arguments)
{
	static const char *const filters[] = {"name", "job", "label"};
	enum output_format format = arguments_format(arguments);
	int64_t limit = arguments_number(arguments, "limit", format == FORMAT_TABLE ? TABLE_LIMIT : 0);
	struct daemons daemons;
	struct collect collect = {"capture", NULL};
	struct failure failure;
	cJSON *request;
	bool filtered = false;
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
	collect.array = need(cJSON_CreateArray());
	if (!daemons_query(&daemons, request, collect_row, &collect, &failure)) {
		code = failure_print(&failure);
	} else {
		bool more = false;

		json_sort(collect.array, by_start);
		unset_running(collect.array);
		while (limit && cJSON_GetArraySize(collect.array) > limit) {
			more = true;
			cJSON_DeleteItemFromArray(collect.array, (int)limit);
		}
		if (cJSON_GetArraySize(collect.array) == 0 && filtered)
			code = fail(EXIT_NO_TARGET, "no capture matches; `profd captures` without a filter lists all");
		if (format == FORMAT_JSON) {
			cJSON *object = json_new("captures");

			cJSON_AddItemToObject(object, "captures", need(cJSON_Duplicate(collect.array, true)));
			json_print(object);
		} else {
			struct table *table = tabulate(collect.array, format == FORMAT_TABLE);
			struct screen screen = screen_output();

			if (format == FORMAT_CSV)
				table_csv(table, stdout, 0);
			else if (table_rows(table))
				table_print(table, &screen, 0);
			else if (!filtered)
				note("there is no capture yet; `profd trigger --pid PID` records one");
			if (more && format == FORMAT_TABLE)
				note("there are more; --limit N shows the newest N");
			table_free(table);
		}
	}
	cJSON_Delete(collect.array);
	cJSON_Delete(request);
	daemons_deinit(&daemons);
	return code;
}
