/* threads.c - who did it: what each thread of the process has recorded. */
#include "report.h"

#include "proto/events.h"

#include <sqlite3.h>

enum { H_THREAD, H_NAME, H_OPERATORS, H_SELF, H_RANGES, H_MARKS };

static const struct column columns[] = {
	[H_THREAD] = {"thread", "THREAD", COLUMN_NUMBER, 0},
	[H_NAME] = {"name", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},
	[H_OPERATORS] = {"operators", "OPERATORS", COLUMN_COUNT, 0},
	[H_SELF] = {"self_cpu_ns", "OPERATORS' SELF CPU", COLUMN_DURATION, 0},
	[H_RANGES] = {"ranges", "RANGES", COLUMN_COUNT, 0},
	[H_MARKS] = {"marks", "MARKS", COLUMN_COUNT, 0},
};

struct table *report_threads(const struct reader *reader, const struct report_options *options)
{
	struct table *table = table_new(columns, sizeof columns / sizeof *columns);
	bool torch = report_ran(reader, "torch");
	bool ranges = torch || report_ran(reader, "nvtx") || report_ran(reader, "steps");
	/* A later record of a thread replaces its name. A window of time is no thread's step but the agent's own. */
	sqlite3_stmt *statement = report_prepare(
		reader, "WITH o AS (SELECT thread, count(*) AS n, sum(self) AS self FROM operators WHERE ?1 = 0 OR "
			"step = ?1 GROUP BY thread), "
			"r AS (SELECT thread, count(*) AS n FROM ranges WHERE ?1 = 0 OR step = ?1 GROUP BY thread), "
			"m AS (SELECT thread, count(*) AS n FROM marks WHERE ?1 = 0 OR step = ?1 GROUP BY thread), "
			"n AS (SELECT thread, name FROM threads WHERE rowid IN (SELECT max(rowid) FROM threads GROUP "
			"BY thread)), "
			"a AS (SELECT thread FROM steps WHERE source <> ?2 UNION SELECT thread FROM o UNION SELECT "
			"thread FROM r UNION SELECT "
			"thread FROM m) "
			"SELECT a.thread, coalesce(s.text, CASE WHEN a.thread = (SELECT value FROM meta WHERE key = "
			"'pid') THEN '(main thread)' END), coalesce(o.n, 0), coalesce(o.self, 0), coalesce(r.n, 0), "
			"coalesce(m.n, 0) FROM a "
			"LEFT JOIN n ON n.thread = a.thread LEFT JOIN strings s ON s.id = n.name LEFT JOIN o ON "
			"o.thread = a.thread "
			"LEFT JOIN r ON r.thread = a.thread LEFT JOIN m ON m.thread = a.thread ORDER BY 4 DESC, 3 "
			"DESC, 5 DESC, 1");

	sqlite3_bind_int64(statement, 1, options->step);
	sqlite3_bind_int64(statement, 2, STEP_SOURCE_DURATION);
	while (report_next(reader, statement)) {
		table_add(table);
		for (int c = 0; c <= H_MARKS; c++)
			report_cell(table, (size_t)c, statement, c);
		if (!torch) {
			table_set_absent(table, H_OPERATORS);
			table_set_absent(table, H_SELF);
		}
		if (!ranges) {
			table_set_absent(table, H_RANGES);
			table_set_absent(table, H_MARKS);
		}
	}
	return table;
}
