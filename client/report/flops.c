/* flops.c - floating point operations of operators, by their input shapes, and how fast they were done (store/flops.h). */
#include "flop_rows.h"
#include "query.h"
#include "recorded.h"
#include "views.h"

#include <sqlite3.h>
#include <stdio.h>

enum { F_NAME, F_SHAPES, F_CALLS, F_CALL, F_TOTAL, F_PERCENT, F_HOST, F_DEVICE, F_RATE };

static const struct column columns[] = {
	[F_NAME] = {"name", "OPERATOR", COLUMN_TEXT, COLUMN_NAME},
	[F_SHAPES] = {"input_shapes", "INPUT SHAPES", COLUMN_TEXT, COLUMN_ELASTIC},
	[F_CALLS] = {"calls", "CALLS", COLUMN_COUNT, 0},
	[F_CALL] = {"flops", "FLOP A CALL", COLUMN_COUNT, COLUMN_SPARE},
	[F_TOTAL] = {"total_flops", "FLOP", COLUMN_COUNT, 0},
	[F_PERCENT] = {"percent", "SHARE", COLUMN_PERCENT, COLUMN_BARRED},
	[F_HOST] = {"cpu_ns", "CPU TOTAL", COLUMN_DURATION, COLUMN_SPARE},
	[F_DEVICE] = {"device_ns", "DEVICE TOTAL", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
	[F_RATE] = {"gflop_per_s", "SPEED", COLUMN_SPEED, 0},
};

static const struct report_key keys[] = {
	{"flops", "total DESC"},
	{"count", "calls DESC"},
	{"cpu_time_total", "host DESC"},
	{"device_time_total", "device DESC, total DESC"},
	{"name", "name"},
};

/* %s: time on the device, or NULL; then how to find it. Sums are real: those of a hostile file may be larger than an
 * integer. */
#define SQL                                                                                                                                                                                                \
	"WITH " FLOP_ROWS(                                                                                                                                                                                 \
		"") ", "                                                                                                                                                                                   \
		    "t AS MATERIALIZED (SELECT o.name AS id, o.inputs AS inputs, count(*) AS calls, total(o.duration) AS host, %s AS device, " FLOP_ALONE("o") " AS alone FROM few o %s WHERE " FLOP_CALL( \
			    "o") " GROUP BY o.name, o.inputs, alone), f AS "                                                                                                                               \
				 "MATERIALIZED (SELECT s.text AS name, i.dims AS dims, t.calls AS calls, t.host AS host, t.device AS device, "                                                             \
				 "profd_flops(s.text, i.dims, i.concrete) AS flops, t.alone AND profd_counted(s.text) AS counted FROM "                                                                    \
				 "t JOIN strings s ON s.id = t.id JOIN inputs i ON i.id = t.inputs), r AS MATERIALIZED (SELECT name, dims, "                                                               \
				 "sum(calls) AS calls, flops, flops * 1.0 * sum(calls) AS total, counted, total(host) AS host, sum(device) AS "                                                            \
				 "device FROM f WHERE flops IS NOT NULL GROUP BY name, dims, flops, counted) SELECT name, dims, calls, flops, "                                                            \
				 "min(total, 9e18), CASE WHEN counted THEN total * 100.0 / (SELECT nullif(total(total), 0) FROM r WHERE counted) "                                                         \
				 "END, min(host, 9e18), min(device, 9e18), total / nullif(coalesce(nullif(device, 0), host), 0) FROM r WHERE 1"

/* Notes the FLOP of all rows that count, divided by these ns. No row: the time was not recorded. */
static void note_speed(struct table *table, const struct reader *reader, const struct report_options *options,
		       double sum, const char *of, const char *sql)
{
	sqlite3_stmt *statement = report_prepare(reader, sql);
	sqlite3_bind_int64(statement, 1, options->step);
	while (report_next(reader, statement))
		if (sqlite3_column_double(statement, 0) > 0)
			table_note(table, "%.3g GFLOP/s %s", sum / sqlite3_column_double(statement, 0), of);
}

/* Adds up all rows that count, which are those with a share. */
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
	/* The time of a part of a step is not known. */
	if (options->filter)
		return;
	note_speed(table, reader, options, sum, "over the steps' time",
		   "SELECT total(duration) FROM steps WHERE" REPORT_STEP);
	if (report_attributed(reader))
		note_speed(table, reader, options, sum, "of each device while it was busy",
			   "SELECT total(busy) FROM step_devices WHERE stream = -1 AND" REPORT_STEP);
}

struct table *report_flops(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(columns), COUNTED(keys), "name, dims", NULL, NULL};
	bool gpu = report_attributed(reader);
	char sql[4096];
	if (!report_ran(reader, "shapes"))
		return table_new(shape.columns, shape.count);
	flop_functions(reader);
	snprintf(sql, sizeof sql, SQL, gpu ? "total(d.total)" : "NULL",
		 gpu ? "LEFT JOIN range_devices d ON d.id = o.id" : "");
	struct table *table = report_query(reader, options, &shape, sql);
	note_total(table, reader, options);
	return table;
}
