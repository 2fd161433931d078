/* audit.c - `profd audit`: who did what to whose processes and captures. */
#include "client/link/collect.h"
#include "client/ui/json.h"
#include "client/ui/listing.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include "proto/quantity.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_LIMIT 20
#define LIMIT_ALL 1000000000

static const struct column columns[] = {
	{"at", "AT (UTC)", COLUMN_TEXT, 0},
	{"user", "USER", COLUMN_TEXT, 0},
	{"uid", "UID", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	{"pid", "BY PID", COLUMN_NUMBER, 0},
	{"action", "ACTION", COLUMN_TEXT, 0},
	{"outcome", "OUTCOME", COLUMN_TEXT, 0},
	{"target_user", "OWNER", COLUMN_TEXT, COLUMN_OPTIONAL},
	{"target_uid", "OWNER'S UID", COLUMN_NUMBER, COLUMN_DATA_ONLY},
	{"target_pid", "PID", COLUMN_NUMBER, COLUMN_OPTIONAL},
	{"subject", "WHAT", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_WRAP},
	{"daemon", "DAEMON", COLUMN_TEXT, COLUMN_DATA_ONLY},
};

static const struct listing listing = {"audit", "lines", COUNTED(columns)};

/* Newest first over all daemons. The lines of one daemon come in this order. */
static int by_time(const void *a, const void *b)
{
	const char *one = json_text(*(cJSON *const *)a, "at");
	const char *other = json_text(*(cJSON *const *)b, "at");

	return strcmp(other ? other : "", one ? one : "");
}

/* For a person: "2026-11-21 14:03:11" for "2026-11-21T14:03:11.123456Z". */
static void make_readable(cJSON *lines)
{
	cJSON *line;

	cJSON_ArrayForEach(line, lines)
	{
		const char *at = json_text(line, "at");
		char text[20];

		if (!at)
			continue;
		snprintf(text, sizeof text, "%s", at);
		if (strlen(text) > 10 && text[10] == 'T')
			text[10] = ' ';
		cJSON_ReplaceItemInObjectCaseSensitive(line, "at", need(cJSON_CreateString(text)));
	}
}

/* The number of a user: by name, else it is one. -1 after a sentence where it is neither. */
static int64_t user_number(const char *text)
{
	const struct passwd *entry = getpwnam(text);
	int64_t number;

	if (entry)
		return entry->pw_uid;
	if (quantity_number(text, &number) && number < UINT32_MAX)
		return number;
	char *safe = text_safe(text);

	fail(EXIT_USAGE, "--user %s: there is no user of that name; a number works too", safe);
	free(safe);
	return -1;
}

int command_audit(struct arguments *arguments)
{
	enum output_format format = arguments_format(arguments);
	int64_t limit = arguments_number(arguments, "limit", format == FORMAT_TABLE ? TABLE_LIMIT : LIMIT_ALL);
	const char *user = arguments_text(arguments, "user", NULL);
	const char *action = arguments_text(arguments, "action", NULL);
	int64_t uid = user ? user_number(user) : 0;
	struct daemons daemons;
	cJSON *request, *lines;
	bool more = false;
	int code;

	if (uid < 0)
		return EXIT_USAGE;
	code = daemons_need(&daemons);
	if (code)
		return code;
	request = request_new("audit");
	/* One more than is shown tells whether there are more. */
	need(cJSON_AddNumberToObject(request, "limit", (double)limit + (limit < LIMIT_ALL ? 1 : 0)));
	if (arguments_has(arguments, "since"))
		need(cJSON_AddNumberToObject(request, "since", (double)arguments_number(arguments, "since", 0)));
	if (user)
		need(cJSON_AddNumberToObject(request, "uid", (double)uid));
	if (action)
		json_add_text(request, "action", action);
	code = collect_rows(&daemons, request, "audit", &lines);
	if (code == EXIT_DONE) {
		if (daemons.count > 1)
			json_sort(lines, by_time);
		while (cJSON_GetArraySize(lines) > limit) {
			more = true;
			cJSON_DeleteItemFromArray(lines, (int)limit);
		}
		if (format == FORMAT_TABLE)
			make_readable(lines);
		if (cJSON_GetArraySize(lines) == 0)
			code = fail(EXIT_NO_TARGET, "the audit log has no line that matches and that you may see");
		listing_print(&listing, lines, format);
		if (more && format == FORMAT_TABLE)
			note("there are more; --limit N shows the newest N");
	}
	cJSON_Delete(lines);
	cJSON_Delete(request);
	daemons_deinit(&daemons);
	return code;
}
