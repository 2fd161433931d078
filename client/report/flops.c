/* flops.c - floating point operations of operators, by their input shapes, and how fast they were done (store/flops.h). */
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "client/ui/figure.h"
#include "client/ui/text.h"

#include "store/flops.h"
#include "store/fold_rule.h"

#include <sqlite3.h>
#include <stdio.h>

enum { F_NAME, F_SHAPES, F_CALLS, F_CALL, F_TOTAL, F_PERCENT, F_HOST, F_DEVICE, F_RATE };

static const struct column columns[] = {
	[F_NAME] = {"name", "OPERATOR", COLUMN_TEXT, COLUMN_NAME},
	[F_SHAPES] = {"input_shapes", "INPUT SHAPES", COLUMN_TEXT, COLUMN_ELASTIC},
	[F_CALLS] = {"calls", "CALLS", COLUMN_COUNT, 0},
	[F_CALL] = {"flops", "FLOP A CALL", COLUMN_COUNT, 0},
	[F_TOTAL] = {"total_flops", "FLOP", COLUMN_COUNT, 0},
	[F_PERCENT] = {"percent", "SHARE", COLUMN_PERCENT, COLUMN_BARRED},
	[F_HOST] = {"cpu_ns", "CPU TOTAL", COLUMN_DURATION, COLUMN_SPARE},
	[F_DEVICE] = {"device_ns", "DEVICE TOTAL", COLUMN_DURATION, COLUMN_OPTIONAL},
	[F_RATE] = {"gflop_per_s", "SPEED", COLUMN_SPEED, 0},
};

static const struct report_key keys[] = {
	{"flops", "total DESC"},
	{"count", "calls DESC"},
	{"cpu_time_total", "host DESC"},
	{"device_time_total", "device DESC, total DESC"},
	{"name", "name"},
};

/* profd_flops(name, dims, concrete): NULL where there is no formula. */
static void flops(sqlite3_context *context, int count, sqlite3_value **values)
{
	const char *texts[3];
	int64_t result;
	(void)count;
	for (int i = 0; i < 3; i++) {
		texts[i] = (const char *)sqlite3_value_text(values[i]);
		if (!texts[i])
			return;
	}
	if (flops_of(texts[0], texts[1], texts[2], &result))
		sqlite3_result_int64(context, figure_time(result));
}

/* profd_has_formula(name) and profd_counted(name): has it one, does it add to the total? */
static void ask_of_name(sqlite3_context *context, int count, sqlite3_value **values)
{
	const char *name = (const char *)sqlite3_value_text(values[0]);
	bool (*const ask)(const char *) = sqlite3_user_data(context) ? flops_counted : flops_known;
	(void)count;
	sqlite3_result_int(context, name && ask(name));
}

/* %s: time on the device, or NULL; how to find it. `few` are the operators that have a formula; those that are one call with their parent
 * are counted with it, as in the table of operators. `some` are those of names of which the totals count fewer: what is folded is
 * among them. Sums are real: those of a broken file may be larger than an integer. */
#define SOME                                                                                                           \
	"some AS MATERIALIZED (SELECT * FROM few WHERE name IN (SELECT f.name FROM (SELECT name, count(*) AS calls "   \
	"FROM few GROUP BY name) f LEFT JOIN (SELECT name, sum(calls) AS calls FROM operator_totals GROUP BY name) t " \
	"ON t.name = f.name WHERE f.calls > coalesce(t.calls, 0)))"
#define FOLDED FOLD_SQL("some", "some")
#define SQL                                                                                                               \
	"WITH few AS MATERIALIZED (SELECT id, parent, self, thread, step, name, flags, inputs, duration FROM operators "  \
	"WHERE name IN (SELECT id FROM strings WHERE profd_has_formula(text))), " SOME ", " FOLDED ", "                   \
	"t AS MATERIALIZED (SELECT o.name AS id, o.inputs AS inputs, count(*) AS calls, total(o.duration) AS "            \
	"host, %s AS device FROM few o %s WHERE (?1 = 0 OR o.step = ?1) AND (o.id IS NULL OR o.id NOT IN (SELECT id "     \
	"FROM folded)) GROUP BY o.name, o.inputs), f AS "                                                                 \
	"MATERIALIZED (SELECT s.text AS name, i.dims AS dims, t.calls AS calls, t.host AS host, t.device AS device, "     \
	"profd_flops(s.text, i.dims, i.concrete) AS flops, profd_counted(s.text) AS counted FROM "                        \
	"t JOIN strings s ON s.id = t.id JOIN inputs i ON i.id = t.inputs), r AS MATERIALIZED (SELECT name, dims, "       \
	"sum(calls) AS calls, flops, flops * 1.0 * sum(calls) AS total, counted, total(host) AS host, sum(device) AS "    \
	"device FROM f WHERE flops IS NOT NULL GROUP BY name, dims, flops, counted) SELECT name, dims, calls, flops, "    \
	"min(total, 9e18), CASE WHEN counted THEN total * 100.0 / (SELECT nullif(total(total), 0) FROM r WHERE counted) " \
	"END, min(host, 9e18), min(device, 9e18), total / nullif(coalesce(nullif(device, 0), host), 0) FROM r WHERE 1"

/* FLOP of all rows that count, over these ns; no row: they were not recorded. */
static void note_speed(struct table *table, const struct reader *reader, const struct report_options *options,
		       double sum, const char *of, const char *sql)
{
	sqlite3_stmt *statement = report_prepare(reader, sql);
	sqlite3_bind_int64(statement, 1, options->step);
	while (report_next(reader, statement))
		if (sqlite3_column_double(statement, 0) > 0)
			table_note(table, "%.3g GFLOP/s %s", sum / sqlite3_column_double(statement, 0), of);
}

/* Of all rows that count: those that have a share of it. */
static double sum_of(const struct table *table)
{
	double sum = 0, figure;
	for (size_t row = 0; row < table_rows(table); row++)
		if (table_figure(table, row, F_PERCENT, &figure) && table_figure(table, row, F_TOTAL, &figure))
			sum += figure;
	return sum;
}

static void note_total(struct table *table, const struct reader *reader, const struct report_options *options)
{
	double sum = sum_of(table);
	int64_t steps = options->step ? 1 : report_step_count(reader);
	if (sum <= 0 || steps <= 0)
		return;
	table_note(table, "%.3g GFLOP a step", sum / 1e9 / (double)steps);
	note_speed(table, reader, options, sum, "over the steps' time",
		   "SELECT total(duration) FROM steps WHERE" REPORT_STEP);
	if (report_attributed(reader))
		note_speed(table, reader, options, sum, "of each device while it was busy",
			   "SELECT total(busy) FROM step_devices WHERE stream = -1 AND" REPORT_STEP);
}

struct table *report_flops(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(columns), COUNTED(keys), "name, dims", NULL, NULL};
	const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
	bool gpu = report_attributed(reader);
	char sql[4096];
	if (!report_ran(reader, "shapes"))
		return table_new(shape.columns, shape.count);
	if (sqlite3_create_function_v2(reader->db, "profd_has_formula", 1, flags, NULL, ask_of_name, NULL, NULL,
				       NULL) ||
	    sqlite3_create_function_v2(reader->db, "profd_flops", 3, flags, NULL, flops, NULL, NULL, NULL) ||
	    sqlite3_create_function_v2(reader->db, "profd_counted", 1, flags, (void *)reader, ask_of_name, NULL, NULL,
				       NULL))
		need(NULL);
	snprintf(sql, sizeof sql, SQL, gpu ? "total(d.total)" : "NULL",
		 gpu ? "LEFT JOIN range_devices d ON d.id = o.id" : "");
	struct table *table = report_query(reader, options, &shape, sql);
	note_total(table, reader, options);
	return table;
}
