/* workers.c - a row for each process that the job forked and that works for the job. */
#include "query.h"
#include "recorded.h"
#include "views.h"

#include <sqlite3.h>

static const struct column columns[] = {
	{"pid", "PID", COLUMN_NUMBER, 0},
	{"name", "NAME", COLUMN_TEXT, 0},
	{"wall_ns", "WALL", COLUMN_DURATION, COLUMN_SPARE},
	{"cpu_ns", "RAN", COLUMN_DURATION, 0},
	{"cpu_percent", "RAN %", COLUMN_PERCENT, 0},
	{"waited_ns", "WAITED FOR A PROCESSOR", COLUMN_DURATION, COLUMN_SPARE},
};

struct table *report_workers(const struct reader *reader, const struct report_options *options)
{
	const struct report_shape shape = {
		.columns = columns, .count = sizeof columns / sizeof *columns, .ties = "w.cpu DESC, w.pid"};

	if (!report_looked(reader))
		return table_new(columns, sizeof columns / sizeof *columns);
	return report_query(
		reader, options, &shape,
		"SELECT w.pid, (SELECT text FROM strings s WHERE s.id = w.name), w.duration, w.cpu, w.cpu * 100.0 / "
		"nullif(w.duration, 0), w.waited FROM workers w");
}
