/* totals.c - the capture in one row. */
#include "report.h"

#include "proto/events.h"

#include <sqlite3.h>

enum { T_WALL, T_STEPS, T_OPERATORS, T_SELF, T_NAMES, T_KERNELS, T_RANGES, T_MARKS, T_THREADS };

static const struct column columns[] = {
	[T_WALL] = {"wall_ns", "WALL", COLUMN_DURATION, 0},
	[T_STEPS] = {"steps", "STEPS", COLUMN_COUNT, 0},
	[T_OPERATORS] = {"operators", "OPERATORS", COLUMN_COUNT, 0},
	[T_SELF] = {"self_cpu_ns", "SELF CPU", COLUMN_DURATION, 0},
	[T_NAMES] = {"operator_names", "NAMES", COLUMN_COUNT, 0},
	[T_KERNELS] = {"kernels", "KERNELS", COLUMN_COUNT, 0},
	[T_RANGES] = {"ranges", "RANGES", COLUMN_COUNT, 0},
	[T_MARKS] = {"marks", "MARKS", COLUMN_COUNT, 0},
	[T_THREADS] = {"threads", "THREADS", COLUMN_COUNT, 0},
};

/* One number that a query with one parameter, mostly the step, gives. */
static void set(const struct reader *reader, struct table *table, size_t column, const char *sql, int64_t value)
{
	sqlite3_stmt *statement = report_prepare(reader, sql);

	sqlite3_bind_int64(statement, 1, value);
	while (report_next(reader, statement))
		report_cell(table, column, statement, 0);
}

struct table *report_totals(const struct reader *reader, const struct report_options *options)
{
	struct table *table = table_new(columns, sizeof columns / sizeof *columns);
	int64_t step = options->step;
	bool torch = report_ran(reader, "torch");
	bool ranges = torch || report_ran(reader, "nvtx") || report_ran(reader, "steps");

	table_add(table);
	set(reader, table, T_WALL, "SELECT sum(duration) FROM steps WHERE ?1 = 0 OR step = ?1", step);
	set(reader, table, T_STEPS, "SELECT count(*) FROM steps WHERE ?1 = 0 OR step = ?1", step);
	/* But for the agent's own, which tells of a window of time. */
	set(reader, table, T_THREADS,
	    "SELECT count(DISTINCT thread) FROM threads WHERE thread NOT IN (SELECT thread FROM steps WHERE source = "
	    "?1)",
	    STEP_SOURCE_DURATION);
	if (torch) {
		set(reader, table, T_OPERATORS,
		    "SELECT coalesce(sum(calls), 0) FROM operator_totals WHERE ?1 = 0 OR step = ?1", step);
		set(reader, table, T_SELF,
		    "SELECT coalesce(sum(self), 0) FROM operator_totals WHERE ?1 = 0 OR step = ?1", step);
		set(reader, table, T_NAMES,
		    "SELECT count(DISTINCT name) FROM operator_totals WHERE ?1 = 0 OR step = ?1", step);
	} else {
		table_set_absent(table, T_OPERATORS);
		table_set_absent(table, T_SELF);
		table_set_absent(table, T_NAMES);
	}
	if (report_ran(reader, "cupti"))
		set(reader, table, T_KERNELS, "SELECT count(*) FROM kernels WHERE ?1 = 0 OR step = ?1", step);
	else
		table_set_absent(table, T_KERNELS);
	if (ranges) {
		set(reader, table, T_RANGES,
		    "SELECT coalesce(sum(calls), 0) FROM range_totals WHERE ?1 = 0 OR step = ?1", step);
		set(reader, table, T_MARKS, "SELECT count(*) FROM marks WHERE ?1 = 0 OR step = ?1", step);
	} else {
		table_set_absent(table, T_RANGES);
		table_set_absent(table, T_MARKS);
	}
	return table;
}
