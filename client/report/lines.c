/* lines.c - where threads were when their Python stacks were sampled, and which operators were called and launched
 * from there: by line of the user's own code, and by function. A line has the time of all that it called, down to the
 * next line of the user's own. */
#include "query.h"
#include "recorded.h"
#include "views.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>

/* Sums of the steps, and the steps' time. What was not sampled is not known, which is not 0. Files of earlier
 * releases have no calls. */
#define WALL " (SELECT nullif(sum(duration), 0) AS wall FROM steps WHERE" REPORT_STEP ") "
#define SAMPLED "sum(samples) AS samples, CASE WHEN sum(samples) THEN sum(host) END AS host, sum(waiting) AS waiting, "
#define NOT_SAMPLED "NULL AS samples, NULL AS host, NULL AS waiting, "
#define CALLED "sum(calls) AS calls, sum(device) AS device, NULL AS estimate"
#define CALLED_ALONE "sum(calls) AS calls, NULL AS device, NULL AS estimate"
#define NOT_CALLED "NULL AS calls, NULL AS device, NULL AS estimate"
#define ESTIMATED                                                                                                      \
	"NULL AS calls, NULL AS device, CASE WHEN count(device_estimate) THEN CAST(total(device_estimate) AS INTEGER) END AS estimate"

enum { WHERE, FILE_NAME, LINE, FUNCTION };

#define PLACE(line_key)                                                                                                \
	[WHERE] = {"where", "WHERE", COLUMN_TEXT, COLUMN_TABLE_ONLY | COLUMN_NAME},                                    \
	[FILE_NAME] = {"file", "FILE", COLUMN_TEXT, COLUMN_DATA_ONLY},                                                 \
	[LINE] = {line_key, "LINE", COLUMN_NUMBER, COLUMN_DATA_ONLY},                                                  \
	[FUNCTION] = {"function", "FUNCTION", COLUMN_TEXT, COLUMN_ELASTIC}
#define SAMPLES                                                                                                        \
	{                                                                                                              \
		"samples", "SAMPLES", COLUMN_COUNT, COLUMN_SPARE                                                       \
	}
#define CALLS                                                                                                          \
	{"calls", "CALLS", COLUMN_COUNT, COLUMN_OPTIONAL}, {"device_ns", "DEVICE", COLUMN_DURATION, COLUMN_OPTIONAL},  \
	{                                                                                                              \
		"device_estimate_ns", "DEVICE (ESTIMATED)", COLUMN_DURATION, COLUMN_OPTIONAL                           \
	}

static const struct column line_columns[] = {
	PLACE("line"),
	SAMPLES,
	{"host_ns", "HOST", COLUMN_DURATION, 0},
	{"percent", "HOST %", COLUMN_PERCENT, COLUMN_BARRED},
	{"share", "SHARE", COLUMN_PERCENT, COLUMN_DATA_ONLY},
	{"waiting_ns", "WAITING", COLUMN_DURATION, 0},
	CALLS,
	{"device_total_ns", "DEVICE TOTAL", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
};

static const struct column function_columns[] = {
	PLACE("line"),
	SAMPLES,
	{"self_ns", "SELF", COLUMN_DURATION, 0},
	{"self_percent", "SELF %", COLUMN_PERCENT, COLUMN_BARRED},
	{"host_ns", "HOST", COLUMN_DURATION, 0},
	{"percent", "HOST %", COLUMN_PERCENT, COLUMN_SPARE},
	{"waiting_ns", "WAITING", COLUMN_DURATION, 0},
	CALLS,
	{"self_device_ns", "SELF DEVICE", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
};

static const struct report_key line_keys[] = {
	{"cpu_time_total", "t.host DESC, t.device DESC, t.calls DESC"},
	{"self_device_time_total", "coalesce(t.device, t.estimate) DESC, t.host DESC"},
	{"device_time_total", "coalesce(t.apart, t.device, t.estimate) DESC, t.host DESC"},
	{"count", "t.calls DESC, t.samples DESC"},
	{"name", "f.text, t.line"},
};

static const struct report_key function_keys[] = {
	{"self_cpu_time_total", "t.self DESC, t.device DESC, t.calls DESC"},
	{"cpu_time_total", "t.host DESC, t.device DESC, t.calls DESC"},
	{"self_device_time_total", "t.apart DESC, t.host DESC"},
	{"device_time_total", "coalesce(t.device, t.estimate) DESC, t.host DESC"},
	{"count", "t.calls DESC, t.samples DESC"},
	{"name", "n.text"},
};

static void name_place(struct table *table, sqlite3_stmt *row)
{
	char text[REPORT_LINE_BYTES];

	table_set_text(table, WHERE, report_line(text, row, FILE_NAME, LINE) ? text : "(no Python)");
}

/* With fewer samples, a share is only rough. */
#define FEW_SAMPLES 100

static void note_few(const struct reader *reader, const struct report_options *options, struct table *table)
{
	sqlite3_stmt *statement = report_prepare(reader, "SELECT count(*) FROM samples WHERE" REPORT_STEP);
	long long count = 0;

	sqlite3_bind_int64(statement, 1, options->step);
	while (report_next(reader, statement))
		count = sqlite3_column_int64(statement, 0);
	/* Twice the standard error of a share of a half. */
	if (count && count < FEW_SAMPLES)
		table_note(
			table,
			"  %lld sample%s in all: a share may be off by %.0f points; more steps (--steps) or a higher --stacks-rate make it more exact.",
			count, count == 1 ? "" : "s", count == 1 ? 100.0 : 100 / sqrt((double)count));
}

/* One query for both tables: sums of what was recorded, between `head` and `tail`. */
static struct table *report_places(const struct reader *reader, const struct report_options *options,
				   struct report_shape shape, const char *head, const char *apart, const char *tail)
{
	bool sampled = report_ran(reader, "python"), called = report_ran(reader, "operator_stacks");
	/* Captures of earlier releases lack this column. */
	bool estimated = sampled && !called && report_has_column(reader, "line_totals", "device_estimate");
	/* If the calls were not recorded, it is not known what launched the work. */
	bool attributed = report_attributed(reader);
	/* Captures of earlier releases lack this column, too. */
	bool is_apart = called && attributed && report_has_column(reader, "line_totals", "device_total");
	char sql[2048];

	shape.collector = sampled ? "python" : "operator_stacks";
	snprintf(sql, sizeof sql, "%s%s%s, %s AS apart%s", head, sampled ? SAMPLED : NOT_SAMPLED,
		 called			   ? attributed ? CALLED : CALLED_ALONE
		 : estimated && attributed ? ESTIMATED
					   : NOT_CALLED,
		 is_apart ? apart : "NULL", tail);
	struct table *table = report_query(reader, options, &shape, sql);
	if (sampled)
		note_few(reader, options, table);
	if (estimated && attributed && report_device_total(reader, options) > 0)
		table_note(table,
			   "  DEVICE (ESTIMATED) is from samples that met an operator or a call while it launched; "
			   "--stacks=operators tells it exactly.");
	return table;
}

struct table *report_lines(const struct reader *reader, const struct report_options *options)
{
	struct report_shape shape = {COUNTED(line_columns), COUNTED(line_keys), "t.file, t.line, t.function", NULL,
				     name_place};

	return report_places(
		reader, options, shape, "WITH t AS (SELECT file, line, function, ", "sum(device_total)",
		" FROM line_totals WHERE" REPORT_STEP "GROUP BY file, line, function) "
		"SELECT NULL, f.text, nullif(t.line, 0), n.text, t.samples, t.host, t.host * 100.0 / w.wall, t.host * "
		"1.0 / w.wall, t.waiting, t.calls, t.device, t.estimate, t.apart FROM t LEFT JOIN strings f ON f.id = t.file "
		"LEFT JOIN strings n ON n.id = t.function JOIN" WALL "w WHERE true");
}

struct table *report_functions(const struct reader *reader, const struct report_options *options)
{
	struct report_shape shape = {COUNTED(function_columns), COUNTED(function_keys), "t.file, t.line, t.function",
				     NULL, name_place};
	bool sampled = report_ran(reader, "python");

	return report_places(
		reader, options, shape,
		sampled ? "WITH t AS (SELECT file, line, function, sum(self) AS self, "
			: "WITH t AS (SELECT file, line, function, NULL AS self, ",
		"sum(self_device)",
		" FROM function_totals WHERE" REPORT_STEP "GROUP BY file, line, function) "
		"SELECT NULL, f.text, nullif(t.line, 0), n.text, t.samples, t.self, t.self * 100.0 / w.wall, t.host, "
		"t.host * 100.0 / w.wall, t.waiting, t.calls, t.device, t.estimate, t.apart FROM t LEFT JOIN strings f ON f.id = "
		"t.file LEFT JOIN strings n ON n.id = t.function JOIN" WALL "w WHERE true");
}
