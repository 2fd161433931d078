/* collectives.c - collective operations (torch.distributed): sizes, times, bandwidths. */
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "store/collectives.h"

#include <sqlite3.h>

enum {
	C_OPERATION,
	C_GROUP,
	C_SIZE,
	C_RANKS,
	C_TYPE,
	C_BYTES,
	C_CALLS,
	C_UNKNOWN,
	C_TOTAL,
	C_AVERAGE,
	C_RATE,
	C_BUS,
	C_HOST,
	C_MIN,
	C_MAX
};

static const struct column columns[] = {
	[C_OPERATION] = {"operation", "OPERATION", COLUMN_TEXT, 0},
	[C_GROUP] = {"group", "GROUP", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_ELASTIC},
	[C_SIZE] = {"group_size", "RANKS", COLUMN_NUMBER, COLUMN_OPTIONAL | COLUMN_SPARE},
	[C_RANKS] = {"group_ranks", "MEMBERS", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[C_TYPE] = {"dtype", "TYPE", COLUMN_TEXT, COLUMN_OPTIONAL},
	[C_BYTES] = {"bytes", "SIZE", COLUMN_BYTES, COLUMN_OPTIONAL},
	[C_CALLS] = {"calls", "CALLS", COLUMN_COUNT, 0},
	[C_UNKNOWN] = {"unknown", "UNKNOWN", COLUMN_COUNT, COLUMN_DATA_ONLY},
	[C_TOTAL] = {"total_ns", "RAN", COLUMN_DURATION, 0},
	[C_AVERAGE] = {"average_ns", "AVG", COLUMN_DURATION, 0},
	[C_RATE] = {"bandwidth_gb_s", "BANDWIDTH", COLUMN_RATE, COLUMN_OPTIONAL | COLUMN_SPARE},
	[C_BUS] = {"bus_gb_s", "BUSBW", COLUMN_RATE, COLUMN_OPTIONAL},
	[C_HOST] = {"host_ns", "HOST", COLUMN_DURATION, COLUMN_SPARE},
	[C_MIN] = {"min_ns", "MIN", COLUMN_DURATION, COLUMN_SPARE},
	[C_MAX] = {"max_ns", "MAX", COLUMN_DURATION, COLUMN_SPARE},
};

/* The bandwidth on the wires that the operation takes. */
static void add_bus(struct table *table, sqlite3_stmt *row)
{
	const char *operation = (const char *)sqlite3_column_text(row, C_OPERATION);
	double factor =
		operation ? collective_bus_factor(collective_of_record(operation), sqlite3_column_int64(row, C_SIZE))
			  : 0;

	if (factor > 0 && sqlite3_column_type(row, C_RATE) != SQLITE_NULL)
		table_set_real(table, C_BUS, factor * sqlite3_column_double(row, C_RATE));
}

#define SQL                                                                                                                          \
	"WITH t AS MATERIALIZED (SELECT *, iif(ended >= begun, ended * 1.0 - begun, NULL) AS ran FROM collectives WHERE" REPORT_STEP \
	") SELECT operation, nullif(coalesce(nullif(group_description, 'undefined'), group_name), ''), group_size, "                 \
	"max(group_ranks), dtype, bytes, count(*), sum(ran IS NULL), min(sum(ran), 9e18), min(avg(ran), 9e18), "                     \
	"bytes / nullif(avg(ran), 0), NULL, min(max(total(duration), 0), 9e18), min(min(ran), 9e18), min(max(ran), 9e18) "           \
	"FROM t GROUP BY operation, group_name, group_description, group_size, dtype, bytes"

static void note(struct table *table, const struct reader *reader)
{
	double figure, calls = 0, unknown = 0, sized = 0;

	for (size_t row = 0; row < table_rows(table); row++) {
		if (table_figure(table, row, C_CALLS, &figure))
			calls += figure;
		if (table_figure(table, row, C_UNKNOWN, &figure))
			unknown += figure;
		sized += table_figure(table, row, C_BYTES, &figure);
	}
	if (calls <= 0)
		return;
	if (unknown < calls)
		table_note(
			table,
			"  RAN: from when this process was ready until it was done, so the wait for the others is in it");
	if (unknown > 0)
		table_note(table, "  it is not known when %.0f of %.0f calls ran", unknown, calls);
	if (sized <= 0 && !report_ran(reader, "shapes"))
		table_note(table,
			   "  `profd trigger --shapes` records sizes and types for backends other than NCCL, too");
}

struct table *report_collectives(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(columns), NULL, 0, "9 DESC, 13 DESC, 1, 2, 6", NULL, add_bus};

	if (!report_has_table(reader, "collectives"))
		return table_new(shape.columns, shape.count);
	struct table *table = report_query(reader, options, &shape, SQL);
	note(table, reader);
	return table;
}
