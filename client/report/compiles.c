/* compiles.c - compilations by torch.compile in the recording: what, why, and how long they took. */
#include "query.h"
#include "views.h"

static const struct column columns[] = {
	{"step", "STEP", COLUMN_NUMBER, 0},
	{"start_ns", "START", COLUMN_DURATION, COLUMN_SPARE},
	{"duration_ns", "TIME", COLUMN_DURATION, 0},
	{"whole_ns", "IN ALL", COLUMN_DURATION, COLUMN_SPARE},
	{"part", "PART", COLUMN_TEXT, 0},
	{"id", "ID", COLUMN_TEXT, 0},
	{"function", "FUNCTION", COLUMN_TEXT, COLUMN_NAME},
	{"file", "FILE", COLUMN_TEXT, COLUMN_ELASTIC},
	{"line", "LINE", COLUMN_NUMBER, COLUMN_OPTIONAL},
	{"reason", "WHY AGAIN", COLUMN_TEXT, COLUMN_ELASTIC},
	{"operators", "OPERATORS", COLUMN_COUNT, COLUMN_SPARE},
	{"failure", "FAILURE", COLUMN_TEXT, COLUMN_OPTIONAL},
};

#define TEXT(column) "(SELECT text FROM strings WHERE id = c." column ")"

struct table *report_compiles(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {.columns = columns,
						  .count = sizeof columns / sizeof *columns,
						  .ties = "c.start, c.rowid",
						  .collector = "compile"};

	return report_query(
		reader, options, &shape,
		"SELECT c.step, c.start, c.duration, c.whole, CASE c.part WHEN 0 THEN 'forward' WHEN 1 THEN 'backward' "
		"ELSE 'at_run_time' END, " TEXT("compile_id") ", " TEXT("function") ", " TEXT("file") ", nullif(c.line, 0), " TEXT(
			"reason") ", nullif(c.operators, 0), " TEXT("failure") " FROM compile_events c WHERE" REPORT_STEP);
}
