/* status.c - `profd status`: the daemons that answer. */
#include "../command.h"
#include "../output.h"
#include "../text.h"

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

int command_status(struct arguments *arguments)
{
	enum output_format format = arguments_format(arguments);
	struct daemons daemons;
	struct collect collect = {"daemon", NULL};
	struct failure failure;
	cJSON *request;
	int code = daemons_need(&daemons);

	if (code)
		return code;
	request = request_new("status");
	collect.array = need(cJSON_CreateArray());
	if (!daemons_query(&daemons, request, collect_row, &collect, &failure)) {
		code = failure_print(&failure);
	} else if (format == FORMAT_JSON) {
		cJSON *object = json_new("status");

		cJSON_AddItemToObject(object, "daemons", need(cJSON_Duplicate(collect.array, true)));
		json_print(object);
	} else {
		struct table *table = table_new(columns, sizeof columns / sizeof *columns);
		struct screen screen = screen_output();
		const cJSON *row;

		cJSON_ArrayForEach(row, collect.array)
		{
			table_add(table);
			for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
				table_set_member(table, c, row, columns[c].key);
		}
		if (format == FORMAT_CSV)
			table_csv(table, stdout, 0);
		else
			table_print(table, &screen, 0);
		table_free(table);
	}
	if (code == EXIT_DONE && failure.error != ERROR_NONE)
		code = failure_print(&failure);
	cJSON_Delete(collect.array);
	cJSON_Delete(request);
	daemons_deinit(&daemons);
	return code;
}
