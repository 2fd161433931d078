/* steps.c - a row for each recorded step. What its own bit set of collectors does not hold was not recorded in it. */
#include "report.h"

#include "proto/events.h"

#include <sqlite3.h>

enum { S_STEP, S_NUMBER, S_START, S_WALL, S_OPERATORS, S_SELF, S_RANGES, S_THREAD, S_FLAGS, S_SOURCE };

static const struct column columns[] = {
	[S_STEP] = {"step", "STEP", COLUMN_NUMBER, 0},
	[S_NUMBER] = {"number", "NUMBER", COLUMN_NUMBER, 0},
	[S_START] = {"start_ns", "START", COLUMN_DURATION, COLUMN_DATA_ONLY},
	[S_WALL] = {"wall_ns", "WALL", COLUMN_DURATION, 0},
	[S_OPERATORS] = {"operators", "OPERATORS", COLUMN_COUNT, 0},
	[S_SELF] = {"self_cpu_ns", "OPERATORS' SELF CPU", COLUMN_DURATION, 0},
	[S_RANGES] = {"ranges", "RANGES", COLUMN_COUNT, 0},
	[S_THREAD] = {"thread", "THREAD", COLUMN_NUMBER, 0},
};

struct table *report_steps(const struct reader *reader, const struct report_options *options)
{
	struct table *table = table_new(columns, sizeof columns / sizeof *columns);
	sqlite3_stmt *statement = report_prepare(
		reader,
		"SELECT s.step, s.number, s.start, s.duration, coalesce(o.calls, 0), coalesce(o.self, 0), "
		"coalesce(r.calls, 0), "
		"s.thread, s.collectors, s.source FROM steps s "
		"LEFT JOIN (SELECT step, sum(calls) AS calls, sum(self) AS self FROM operator_totals GROUP BY step) o "
		"ON o.step = s.step "
		"LEFT JOIN (SELECT step, sum(calls) AS calls FROM range_totals GROUP BY step) r ON r.step = s.step "
		"WHERE ?1 = 0 OR s.step = ?1 ORDER BY s.step");

	sqlite3_bind_int64(statement, 1, options->step);
	while (report_next(reader, statement)) {
		int64_t collectors = sqlite3_column_int64(statement, S_FLAGS);

		table_add(table);
		for (int c = 0; c <= S_THREAD; c++)
			report_cell(table, (size_t)c, statement, c);
		/* A window of time is kept as a step, which the process does not number, nor any thread end. */
		if (sqlite3_column_int(statement, S_SOURCE) == STEP_SOURCE_DURATION) {
			table_unset(table, S_NUMBER);
			table_unset(table, S_THREAD);
		}
		if (!(collectors & 1 << COLLECTOR_TORCH)) {
			table_set_absent(table, S_OPERATORS);
			table_set_absent(table, S_SELF);
		}
		if (!(collectors & (1 << COLLECTOR_NVTX | 1 << COLLECTOR_TORCH | 1 << COLLECTOR_STEPS)))
			table_set_absent(table, S_RANGES);
	}
	return table;
}

struct table *report_steps_summary(const cJSON *summary)
{
	static const struct column few[] = {
		{"step", "STEP", COLUMN_NUMBER, 0},
		{"number", "NUMBER", COLUMN_NUMBER, 0},
		{"wall_ns", "WALL", COLUMN_DURATION, 0},
	};
	struct table *table = table_new(few, sizeof few / sizeof *few);
	const cJSON *row;

	cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(summary, "steps"))
	{
		table_add(table);
		for (size_t c = 0; c < sizeof few / sizeof *few; c++) {
			const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, few[c].key);

			if (cJSON_IsNumber(item))
				table_set(table, c, (int64_t)item->valuedouble);
		}
	}
	report_whole(table, summary, "steps_total");
	return table;
}
