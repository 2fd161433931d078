/* ranges.c - named intervals of the host (NVTX, profd_range, record_function) by name, domain and source. */
#include "report.h"

#include "proto/events.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

enum { R_NAME, R_DOMAIN, R_SOURCE, R_CALLS, R_TOTAL, R_SELF, R_AVERAGE, R_LEAST, R_MOST };

static const struct column columns[] = {
	[R_NAME] = {"name", "RANGE", COLUMN_TEXT, COLUMN_ELASTIC},
	[R_DOMAIN] = {"domain", "DOMAIN", COLUMN_TEXT, COLUMN_ELASTIC | COLUMN_OPTIONAL},
	[R_SOURCE] = {"source", "FROM", COLUMN_TEXT, 0},
	[R_CALLS] = {"calls", "CALLS", COLUMN_COUNT, 0},
	[R_TOTAL] = {"total_ns", "TOTAL", COLUMN_DURATION, 0},
	[R_SELF] = {"self_ns", "SELF", COLUMN_DURATION, 0},
	[R_AVERAGE] = {"average_ns", "AVG", COLUMN_DURATION, 0},
	[R_LEAST] = {"min_ns", "MIN", COLUMN_DURATION, 0},
	[R_MOST] = {"max_ns", "MAX", COLUMN_DURATION, 0},
};

static const char *order(const char *key)
{
	static const char *const orders[][2] = {
		{"cpu_time_total", "t.total DESC"},
		{"self_cpu_time_total", "t.self DESC"},
		{"cpu_time", "t.total * 1.0 / t.calls DESC"},
		{"count", "t.calls DESC"},
		{"name", "s.text"},
	};

	for (size_t i = 0; key && i < sizeof orders / sizeof *orders; i++)
		if (strcmp(key, orders[i][0]) == 0)
			return orders[i][1];
	return orders[0][1];
}

struct table *report_ranges(const struct reader *reader, const struct report_options *options)
{
	struct table *table = table_new(columns, sizeof columns / sizeof *columns);
	char sql[1024];
	sqlite3_stmt *statement;

	snprintf(sql, sizeof sql,
		 "SELECT s.text, d.text, t.source, t.calls, t.total, t.self, t.total / t.calls, t.least, t.most FROM "
		 "(SELECT name, domain, source, sum(calls) AS calls, sum(total) AS total, sum(self) AS self, "
		 "min(\"min\") AS least, "
		 "max(\"max\") AS most FROM range_totals WHERE ?1 = 0 OR step = ?1 GROUP BY name, domain, source) t "
		 "LEFT JOIN strings s ON s.id = t.name LEFT JOIN strings d ON d.id = t.domain ORDER BY %s, s.text",
		 order(options->sort_by));
	statement = report_prepare(reader, sql);
	sqlite3_bind_int64(statement, 1, options->step);
	while (report_next(reader, statement)) {
		const char *source = range_source_word((unsigned)sqlite3_column_int(statement, R_SOURCE));

		table_add(table);
		for (int c = 0; c <= R_MOST; c++)
			if (c != R_SOURCE)
				report_cell(table, (size_t)c, statement, c);
		table_set_text(table, R_SOURCE, source ? source : "unknown");
		if (sqlite3_column_type(statement, R_NAME) == SQLITE_NULL)
			table_set_text(table, R_NAME, "(nameless)");
	}
	return table;
}

struct table *report_ranges_summary(const cJSON *summary, int64_t wall)
{
	static const struct column few[] = {
		{"name", "RANGE", COLUMN_TEXT, COLUMN_ELASTIC}, {"calls", "CALLS", COLUMN_COUNT, 0},
		{"total_ns", "TOTAL", COLUMN_DURATION, 0},	{"", "OF STEPS", COLUMN_PERCENT, COLUMN_TABLE_ONLY},
		{"self_ns", "SELF", COLUMN_DURATION, 0},
	};
	struct table *table = table_new(few, sizeof few / sizeof *few);
	const cJSON *row;

	cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(summary, "ranges"))
	{
		const cJSON *total = cJSON_GetObjectItemCaseSensitive(row, "total_ns");

		table_add(table);
		for (size_t c = 0; c < sizeof few / sizeof *few; c++) {
			const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, few[c].key);

			if (cJSON_IsString(item))
				table_set_text(table, c, item->valuestring);
			else if (cJSON_IsNumber(item))
				table_set(table, c, (int64_t)item->valuedouble);
		}
		if (wall > 0 && cJSON_IsNumber(total))
			table_set_real(table, 3, total->valuedouble * 100 / (double)wall);
	}
	report_whole(table, summary, "ranges_total");
	return table;
}
