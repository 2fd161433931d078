/* kernels.c - kernels by name, over all devices and streams. */
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "proto/events.h"

#include <sqlite3.h>

static const struct column columns[] = {
	{"name", "KERNEL", COLUMN_TEXT, COLUMN_NAME},	   {"calls", "CALLS", COLUMN_COUNT, 0},
	{"total_ns", "TOTAL", COLUMN_DURATION, 0},	   {"percent", "DEVICE %", COLUMN_PERCENT, COLUMN_BARRED},
	{"average_ns", "AVG", COLUMN_DURATION, 0},	   {"min_ns", "MIN", COLUMN_DURATION, COLUMN_SPARE},
	{"max_ns", "MAX", COLUMN_DURATION, COLUMN_SPARE},  {"devices", "DEVICES", COLUMN_LIST, COLUMN_SPARE},
	{"streams", "STREAMS", COLUMN_LIST, COLUMN_SPARE}, {"short_name", "SHORT NAME", COLUMN_TEXT, COLUMN_DATA_ONLY},
};

static const struct report_key keys[] = {
	{"device_time_total", "t.total DESC"},
	{"device_time", "t.total * 1.0 / t.timed DESC"},
	{"count", "t.calls DESC"},
	{"name", "s.text"},
};

/* Below the table: how many of the calls were nodes of CUDA graphs, of how many launches. */
static void note_graphs(struct table *table, const struct reader *reader, const struct report_options *options)
{
	sqlite3_stmt *row = report_prepare(reader, "SELECT count(*), count(DISTINCT correlation) FROM kernels WHERE "
						   "graph <> 0 AND" REPORT_STEP);
	sqlite3_bind_int64(row, 1, options->step);
	while (report_next(reader, row)) {
		long long nodes = sqlite3_column_int64(row, 0), launches = sqlite3_column_int64(row, 1);
		if (nodes)
			table_note(table,
				   "  %lld of these calls were nodes of CUDA graphs, in %lld launch%s (--by graphs)",
				   nodes, launches, launches == 1 ? "" : "es");
	}
}

struct table *report_kernels(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(columns), COUNTED(keys), "s.text", "cupti", NULL};

	struct table *table = report_query(
		reader, options, &shape,
		"SELECT coalesce(s.text, '(nameless)'), t.calls, t.total, t.total * 100.0 / w.total, t.total / "
		"t.timed, t.least, t.most, t.devices, t.streams, (SELECT b.text FROM kernel_names n JOIN strings b ON "
		"b.id = n.short WHERE n.name = t.name) FROM (SELECT name, sum(calls) AS calls, " REPORT_TIMED_TOTAL
		" AS total, " REPORT_TIMED_CALLS " AS timed, min(\"min\") AS least, max(\"max\") AS most, "
		"group_concat(DISTINCT device) AS devices, group_concat(DISTINCT stream) AS streams FROM (SELECT * "
		"FROM "
		"kernel_totals WHERE" REPORT_STEP
		"ORDER BY device, stream) GROUP BY name) t JOIN (SELECT " REPORT_DEVICE_TIME
		" AS total) w LEFT JOIN strings s ON s.id = t.name WHERE t.calls > 0");
	if (report_session_options(reader) & SESSION_GRAPHS_WHOLE)
		table_note(table, "  CUDA graphs were recorded as a whole: their kernels are not here (--by graphs)");
	/* Among the other tables it stands below the operators. */
	if (options->alone) {
		note_graphs(table, reader, options);
		report_note_device(table, reader, options);
	}
	return table;
}
