/* sessions.c - how CUPTI was used for a capture, and how exact its times are. */
#include "query.h"
#include "views.h"

#include "proto/events.h"

#include <sqlite3.h>
#include <stdio.h>

enum {
	U_CUPTI,
	U_DRIVER,
	U_RUNTIME,
	U_ERROR,
	U_RECORDS,
	U_BUFFERS,
	U_FOREIGN,
	U_ASTRAY,
	U_EARLY,
	U_ENABLE,
	U_DRAIN,
	U_LIBRARY,
	U_NOTES
};

static const struct column columns[] = {
	[U_CUPTI] = {"cupti_version", "CUPTI", COLUMN_NUMBER, 0},
	[U_DRIVER] = {"driver_version", "DRIVER", COLUMN_NUMBER, 0},
	[U_RUNTIME] = {"runtime_version", "RUNTIME", COLUMN_NUMBER, COLUMN_OPTIONAL},
	[U_ERROR] = {"clock_error_ns", "CLOCK ERROR", COLUMN_DURATION, 0},
	[U_RECORDS] = {"records", "RECORDS", COLUMN_COUNT, 0},
	[U_BUFFERS] = {"buffer_bytes", "BUFFERS", COLUMN_BYTES, 0},
	[U_FOREIGN] = {"foreign_buffers", "FOREIGN", COLUMN_COUNT, COLUMN_OPTIONAL},
	[U_ASTRAY] = {"astray_buffers", "ASTRAY", COLUMN_COUNT, COLUMN_OPTIONAL},
	[U_EARLY] = {"early", "EARLY", COLUMN_COUNT, COLUMN_SPARE},
	[U_ENABLE] = {"enable_ns", "SWITCH ON", COLUMN_DURATION, COLUMN_SPARE},
	[U_DRAIN] = {"drain_ns", "DRAIN", COLUMN_DURATION, COLUMN_SPARE},
	[U_LIBRARY] = {"library", "LIBRARY", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[U_NOTES] = {"notes", "NOTES", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_WRAP},
};

static void note_options(struct table *table, sqlite3_stmt *row)
{
	static const struct {
		int64_t option;
		const char *text;
	} notes[] = {
		{SESSION_GRAPHS_WHOLE, "CUDA graphs as a whole"},
		{SESSION_API_ALL, "all API calls"},
		{SESSION_SHARED, "side by side with another client"},
		{SESSION_FORCED, "drained by force: what was still running came without an end"},
		{SESSION_REPLACED, "another client took the buffers over in mid-capture"},
		{SESSION_HUNG, "a call of CUPTI did not return in time; the session was abandoned"},
		{SESSION_CLOCK_STEPPED, "CUPTI's clock jumped or changed its rate"},
		{SESSION_EXHAUSTED, "CUPTI gave no buffers back; switched off before the end"},
		{SESSION_NO_FLUSH, "CUPTI refused to hand its buffers out; they were read where they lay"},
		{SESSION_LEFT_ON, "CUPTI refused to switch it off"},
		{SESSION_CLOCK_SILENT, "CUPTI's clock ceased to answer"},
		{SESSION_ATTACHED, "the agent was attached: CUDA may have been in use before"},
	};
	int64_t options = sqlite3_column_int64(row, U_NOTES);
	char text[1024] = "";
	size_t n = 0;

	for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
		if (options & notes[i].option)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? "; " : "", notes[i].text);
	table_set_text(table, U_NOTES, n ? text : NULL);
}

struct table *report_sessions(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(columns), NULL, 0, "c.rowid", "cupti", note_options};

	return report_query(
		reader, options, &shape,
		"SELECT cupti_version, driver_version, nullif(runtime_version, 0), clock_error, records, buffer_bytes, "
		"nullif(foreign_buffers, 0), nullif(astray_buffers, 0), early, enable, drain, s.text, options "
		"FROM sessions c LEFT JOIN strings s ON s.id = c.library");
}
