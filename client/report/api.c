/* api.c - the time that the host spent in CUDA: calls of the runtime and driver API by name. */
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "proto/events.h"

#include <sqlite3.h>

#define FIGURES                                                                                                        \
	{"calls", "CALLS", COLUMN_COUNT, 0}, {"total_ns", "TOTAL", COLUMN_DURATION, 0},                                \
		{"percent", "SHARE", COLUMN_PERCENT, COLUMN_BARRED}, {"average_ns", "AVG", COLUMN_DURATION, 0},        \
		{"min_ns", "MIN", COLUMN_DURATION, COLUMN_SPARE}, {"max_ns", "MAX", COLUMN_DURATION, COLUMN_SPARE},    \
	{                                                                                                              \
		"failed", "FAILED", COLUMN_COUNT, 0                                                                    \
	}

enum { A_NAME, A_API };

static const struct column api_columns[] = {
	[A_NAME] = {"name", "CALL", COLUMN_TEXT, COLUMN_ELASTIC},
	[A_API] = {"api", "API", COLUMN_TEXT, 0},
	FIGURES,
};

/* Time of the host, whatever the key says. */
static const struct report_key keys[] = {
	{"cpu_time_total", "t.total DESC"},
	{"cpu_time", "t.total * 1.0 / t.calls DESC"},
	{"count", "t.calls DESC"},
	{"name", "1"},
};

#define FIGURES_SQL                                                                                                    \
	"t.calls, t.total, t.total * 100.0 / nullif((SELECT sum(total) FROM t), 0), t.total / t.calls, t.least, "      \
	"t.most, t.failed"

static void name_api(struct table *table, sqlite3_stmt *row)
{
	/* CUpti_CallbackDomain */
	static const char *const apis[] = {"unknown", "driver", "runtime"};
	int64_t domain = sqlite3_column_int64(row, A_API);

	table_set_text(table, A_API, apis[domain == 1 || domain == 2 ? domain : 0]);
}

struct table *report_api(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(api_columns), COUNTED(keys), "s.text", "cupti", name_api};

	struct table *table = report_query(
		reader, options, &shape,
		"WITH t AS (SELECT name, domain, sum(calls) AS calls, sum(total) AS total, min(\"min\") AS least, "
		"max(\"max\") AS most, sum(failed) AS failed FROM api_totals WHERE" REPORT_STEP
		"GROUP BY name, domain) SELECT coalesce(s.text, '(nameless)'), t.domain, " FIGURES_SQL
		" FROM t LEFT JOIN strings s ON s.id = t.name WHERE t.calls > 0");
	/* If both were refused, there is no table. */
	if (report_refused(reader, REPORT_RUNTIME) != report_refused(reader, REPORT_DRIVER))
		table_note(table, "  calls of the %s API were not recorded",
			   report_refused(reader, REPORT_RUNTIME) ? "runtime" : "driver");
	if (!(report_session_options(reader) & SESSION_API_ALL))
		table_note(
			table,
			"  launches, copies, waits, memory and the loading of code only; `profd trigger --api all` records all calls");
	return table;
}
