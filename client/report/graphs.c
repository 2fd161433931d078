/* graphs.c - CUDA graphs: what their launches took on the device. If a capture was recorded node by node, the
 * correlation id tells which operations are of one launch. */
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "proto/events.h"

static const struct column columns[] = {
	{"graph", "GRAPH", COLUMN_NUMBER, 0},
	{"calls", "LAUNCHES", COLUMN_COUNT, 0},
	{"operations", "OPERATIONS", COLUMN_COUNT, COLUMN_OPTIONAL},
	{"total_ns", "TOTAL", COLUMN_DURATION, 0},
	{"percent", "DEVICE %", COLUMN_PERCENT, 0},
	{"average_ns", "AVG", COLUMN_DURATION, 0},
	{"min_ns", "MIN", COLUMN_DURATION, COLUMN_SPARE},
	{"max_ns", "MAX", COLUMN_DURATION, COLUMN_SPARE},
	{"devices", "DEVICES", COLUMN_LIST, COLUMN_SPARE},
	{"streams", "STREAMS", COLUMN_LIST, COLUMN_SPARE},
};

static const struct report_key keys[] = {
	{"device_time_total", "sum(total) DESC"},
	{"device_time", "sum(total) * 1.0 / sum(calls) DESC"},
	{"count", "sum(calls) DESC"},
	{"name", "graph"},
};

/* The rows that are added up: one or more for each launch. */
#define WHOLE                                                                                                          \
	"SELECT graph, calls, NULL AS operations, total, \"min\" AS least, \"max\" AS most, device, stream FROM "      \
	"graph_totals WHERE" REPORT_STEP
#define NODES(table)                                                                                                   \
	"SELECT graph, correlation, duration, device, stream FROM " table " WHERE graph <> 0 AND" REPORT_STEP
#define BY_NODE                                                                                                        \
	"SELECT graph, 1 AS calls, count(*) AS operations, sum(duration) AS total, sum(duration) AS least, "           \
	"sum(duration) AS most, device, stream FROM (" NODES("kernels") " UNION ALL " NODES(                           \
		"copies") " UNION ALL " NODES("sets") ") GROUP BY graph, correlation"
#define SUMS(launches)                                                                                                 \
	"SELECT graph, sum(calls), sum(operations), sum(total), sum(total) * 100.0 / " REPORT_DEVICE_TIME              \
	", sum(total) / sum(calls), min(least), max(most), group_concat(DISTINCT device), group_concat(DISTINCT "      \
	"stream) FROM (" launches ") GROUP BY graph HAVING sum(calls) > 0"

struct table *report_graphs(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(columns), COUNTED(keys), "graph", "cupti", NULL};
	bool whole = report_session_options(reader) & SESSION_GRAPHS_WHOLE;

	struct table *table = report_query(reader, options, &shape, whole ? SUMS(WHOLE) : SUMS(BY_NODE));
	if (whole)
		table_note(table, "  recorded as a whole: it is not known how many operations a launch had");
	return table;
}
