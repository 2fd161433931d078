/* totals.c - the capture in one row. */
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "proto/events.h"

#include <sqlite3.h>

enum {
	T_WALL,
	T_STEPS,
	T_BUSY,
	T_BUSY_SHARE,
	T_KERNELS,
	T_COPIES,
	T_SETS,
	T_GRAPHS,
	T_DEVICE,
	T_OPERATORS,
	T_SELF,
	T_NAMES,
	T_RANGES,
	T_MARKS,
	T_THREADS
};

static const struct column columns[] = {
	[T_WALL] = {"wall_ns", "WALL", COLUMN_DURATION, 0},
	[T_STEPS] = {"steps", "STEPS", COLUMN_COUNT, 0},
	[T_BUSY] = {"device_busy_ns", "DEVICE BUSY", COLUMN_DURATION, COLUMN_OPTIONAL},
	[T_BUSY_SHARE] = {"device_busy_percent", "BUSY %", COLUMN_PERCENT, COLUMN_OPTIONAL},
	[T_KERNELS] = {"kernels", "KERNELS", COLUMN_COUNT, 0},
	[T_COPIES] = {"copies", "COPIES", COLUMN_COUNT, COLUMN_OPTIONAL},
	[T_SETS] = {"sets", "MEMSETS", COLUMN_COUNT, COLUMN_OPTIONAL | COLUMN_SPARE},
	[T_GRAPHS] = {"graphs", "GRAPHS", COLUMN_COUNT, COLUMN_OPTIONAL},
	[T_DEVICE] = {"device_ns", "DEVICE TIME", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
	[T_OPERATORS] = {"operators", "OPERATORS", COLUMN_COUNT, 0},
	[T_SELF] = {"self_cpu_ns", "SELF CPU", COLUMN_DURATION, COLUMN_SPARE},
	[T_NAMES] = {"operator_names", "NAMES", COLUMN_COUNT, COLUMN_SPARE},
	[T_RANGES] = {"ranges", "RANGES", COLUMN_COUNT, COLUMN_SPARE},
	[T_MARKS] = {"marks", "MARKS", COLUMN_COUNT, COLUMN_SPARE},
	[T_THREADS] = {"threads", "THREADS", COLUMN_COUNT, COLUMN_SPARE},
};

/* Sets a column to the number that a query gives. The query has one parameter, mostly the step. */
static void set(const struct reader *reader, struct table *table, size_t column, const char *sql, int64_t value)
{
	sqlite3_stmt *statement = report_prepare(reader, sql);

	sqlite3_bind_int64(statement, 1, value);
	while (report_next(reader, statement)) {
		if (columns[column].kind == COLUMN_PERCENT && sqlite3_column_type(statement, 0) != SQLITE_NULL)
			table_set_real(table, column, sqlite3_column_double(statement, 0));
		else
			report_cell(table, column, statement, 0);
	}
}

#define CALLS(table) "SELECT coalesce(sum(calls), 0) FROM " table " WHERE" REPORT_STEP

static void set_device(const struct reader *reader, struct table *table, const struct report_options *options)
{
	set(reader, table, T_BUSY, "SELECT coalesce(sum(busy), 0) FROM step_devices WHERE stream = -1 AND" REPORT_STEP,
	    options->step);
	set(reader, table, T_BUSY_SHARE,
	    "SELECT (SELECT coalesce(sum(busy), 0) FROM step_devices WHERE stream = -1 AND" REPORT_STEP ") * 100.0 / "
	    "nullif(sum(duration) * (SELECT max(count(DISTINCT device), 1) FROM step_devices), 0) FROM steps "
	    "WHERE" REPORT_STEP,
	    options->step);
	set(reader, table, T_KERNELS, CALLS("kernel_totals"), options->step);
	if (report_refused(reader, REPORT_COPIES))
		table_set_absent(table, T_COPIES);
	else
		set(reader, table, T_COPIES, CALLS("copy_totals"), options->step);
	if (report_refused(reader, REPORT_SETS))
		table_set_absent(table, T_SETS);
	else
		set(reader, table, T_SETS, CALLS("set_totals"), options->step);
	if (report_session_options(reader) & SESSION_GRAPHS_WHOLE)
		set(reader, table, T_GRAPHS, CALLS("graph_totals"), options->step);
	set(reader, table, T_DEVICE, "SELECT coalesce(" REPORT_DEVICE_TIME ", 0)", options->step);
}

static void set_host(const struct reader *reader, struct table *table, int64_t step)
{
	bool torch = report_filled(reader, FILLS_OPERATORS), ranges = report_filled(reader, FILLS_RANGES);

	/* Does not count the agent's own thread, which ends a window of time. */
	if (!step)
		set(reader, table, T_THREADS,
		    "SELECT count(DISTINCT thread) FROM threads WHERE thread NOT IN (SELECT thread FROM steps WHERE "
		    "source = ?1)",
		    STEP_SOURCE_DURATION);
	if (torch) {
		set(reader, table, T_OPERATORS, CALLS("operator_totals"), step);
		set(reader, table, T_SELF, "SELECT coalesce(sum(self), 0) FROM operator_totals WHERE" REPORT_STEP,
		    step);
		set(reader, table, T_NAMES, "SELECT count(DISTINCT name) FROM operator_totals WHERE" REPORT_STEP, step);
	} else {
		table_set_absent(table, T_OPERATORS);
		table_set_absent(table, T_SELF);
		table_set_absent(table, T_NAMES);
	}
	if (ranges) {
		set(reader, table, T_RANGES, CALLS("range_totals"), step);
		set(reader, table, T_MARKS, "SELECT count(*) FROM marks WHERE" REPORT_STEP, step);
	} else {
		table_set_absent(table, T_RANGES);
		table_set_absent(table, T_MARKS);
	}
}

/* What the host did belongs to no device: for a part by device it stays empty. */
struct table *report_totals(const struct reader *reader, const struct report_options *options)
{
	struct table *table = table_new(COUNTED(columns));

	table_add(table);
	set(reader, table, T_WALL, "SELECT sum(duration) FROM steps WHERE" REPORT_STEP, options->step);
	set(reader, table, T_STEPS, "SELECT count(*) FROM steps WHERE" REPORT_STEP, options->step);
	if (report_gpu(reader))
		set_device(reader, table, options);
	else
		table_set_absent(table, T_KERNELS);
	if (!options->filter)
		set_host(reader, table, options->step);
	return table;
}
