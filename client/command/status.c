/* status.c - `profd status`: the daemons that answer. */
#include "client/link/collect.h"
#include "client/ui/listing.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

static const struct column columns[] = {
	{"user", "YOUR OWN", COLUMN_FLAG, 0},
	{"version", "VERSION", COLUMN_TEXT, 0},
	{"pid", "PID", COLUMN_NUMBER, 0},
	{"uid", "UID", COLUMN_NUMBER, 0},
	{"processes", "PROCESSES", COLUMN_COUNT, 0},
	{"running", "RECORDING", COLUMN_COUNT, 0},
	{"captures", "CAPTURES", COLUMN_COUNT, 0},
	{"store_bytes", "STORE", COLUMN_BYTES, 0},
	{"started_at", "STARTED", COLUMN_TEXT, COLUMN_DATA_ONLY},
	{"socket", "SOCKET", COLUMN_TEXT, 0},
	{"directory", "DIRECTORY", COLUMN_TEXT, 0},
};

static const struct listing listing = {"status", "daemons", COUNTED(columns)};

int command_status(struct arguments *arguments)
{
	struct daemons daemons;
	struct collect collect = {"daemon", NULL};
	struct failure failure;
	cJSON *request;
	int code = daemons_need(&daemons);

	if (code)
		return code;
	request = request_new("status");
	collect.array = need(cJSON_CreateArray());
	if (daemons_query(&daemons, request, collect_row, &collect, &failure))
		listing_print(&listing, collect.array, arguments_format(arguments));
	/* Said even if another daemon has answered. */
	if (failure.error != ERROR_NONE)
		code = failure_print(&failure);
	cJSON_Delete(collect.array);
	cJSON_Delete(request);
	daemons_deinit(&daemons);
	return code;
}
