/* kernels.c - kernels by name, over all devices and streams. */
#include "kernel_launches.h"
#include "query.h"
#include "recorded.h"

#include "proto/events.h"
#include "store/breakdown/names.h"

#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

/* Columns from K_OCCUPANCY on do not come from the query. A narrow text table leaves out the last ones first. */
enum {
	K_SHORT = 9,
	K_OCCUPANCY,
	K_TENSOR_CORES,
	K_BLOCKS,
	K_GRID,
	K_BLOCK,
	K_REGISTERS,
	K_SHARED,
	K_CONFIGURATIONS,
	K_MEDIAN,
	K_DEVIATION,
	COLUMNS
};
#define IF_ROOM (COLUMN_OPTIONAL | COLUMN_SPARE)

static const struct column columns[COLUMNS] = {
	{"name", "KERNEL", COLUMN_TEXT, COLUMN_NAME},
	{"calls", "CALLS", COLUMN_COUNT, 0},
	{"total_ns", "TOTAL", COLUMN_DURATION, 0},
	{"percent", "DEVICE %", COLUMN_PERCENT, COLUMN_BARRED},
	{"average_ns", "AVG", COLUMN_DURATION, 0},
	{"min_ns", "MIN", COLUMN_DURATION, COLUMN_SPARE},
	{"max_ns", "MAX", COLUMN_DURATION, COLUMN_SPARE},
	{"devices", "DEVICES", COLUMN_LIST, COLUMN_SPARE},
	{"streams", "STREAMS", COLUMN_LIST, COLUMN_SPARE},
	[K_SHORT] = {"short_name", "SHORT NAME", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[K_OCCUPANCY] = {"occupancy_percent", "OCCUPANCY", COLUMN_PERCENT, IF_ROOM},
	[K_TENSOR_CORES] = {"tensor_cores", "TENSOR CORES", COLUMN_FLAG, IF_ROOM},
	[K_BLOCKS] = {"blocks_per_sm", "BLOCKS/SM", COLUMN_RATIO, IF_ROOM},
	[K_GRID] = {"grid", "GRID", COLUMN_LIST, IF_ROOM},
	[K_BLOCK] = {"block", "BLOCK", COLUMN_LIST, IF_ROOM},
	[K_REGISTERS] = {"registers_per_thread", "REGISTERS", COLUMN_NUMBER, IF_ROOM},
	[K_SHARED] = {"shared_memory_bytes", "SHARED", COLUMN_BYTES, IF_ROOM},
	[K_CONFIGURATIONS] = {"configurations", "CONFIGS", COLUMN_COUNT, IF_ROOM},
	[K_MEDIAN] = {"median_ns", "MEDIAN", COLUMN_DURATION, IF_ROOM},
	[K_DEVIATION] = {"stddev_ns", "STDDEV", COLUMN_DURATION, IF_ROOM},
};

static const struct report_key keys[] = {
	{"device_time_total", "t.total DESC"},
	{"device_time", "t.total * 1.0 / t.timed DESC"},
	{"count", "t.calls DESC"},
	{"name", "s.text"},
};

#define NOTHING "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
_Static_assert(COLUMNS - K_OCCUPANCY == 10, "NOTHING has as many");

/* Notes below the table how many calls were nodes of CUDA graphs, and of how many launches. */
static void note_graphs(struct table *table, const struct reader *reader, const struct report_options *options)
{
	sqlite3_stmt *row = report_prepare(reader, "SELECT count(*), count(DISTINCT correlation) FROM kernels WHERE "
						   "graph <> 0 AND" REPORT_STEP);
	sqlite3_bind_int64(row, 1, options->step);
	while (report_next(reader, row)) {
		long long nodes = sqlite3_column_int64(row, 0), launches = sqlite3_column_int64(row, 1);
		if (nodes)
			table_note(table,
				   "  %lld of these calls were nodes of CUDA graphs, in %lld launch%s (--by graphs)",
				   nodes, launches, launches == 1 ? "" : "es");
	}
}

/* For the function that finishes a query's rows, which has no context. NULL: nobody asked for these columns. */
static const struct kernel_launches *launches_now;

static void set_three(struct table *table, size_t column, const int64_t *three)
{
	char text[72];

	snprintf(text, sizeof text, "%lld,%lld,%lld", (long long)three[0], (long long)three[1], (long long)three[2]);
	table_set_text(table, column, text);
}

static void add_launches(struct table *table, sqlite3_stmt *statement)
{
	const char *name = (const char *)sqlite3_column_text(statement, 0);
	int cores = launches_now && name ? names_tensor_cores(name) : -1;
	const struct kernel_launches_row *row =
		launches_now ? kernel_launches_find(launches_now, sqlite3_column_int64(statement, COLUMNS)) : NULL;

	if (cores >= 0)
		table_set(table, K_TENSOR_CORES, cores);
	if (!row)
		return;
	if (row->occupancy >= 0)
		table_set_real(table, K_OCCUPANCY, row->occupancy * 100);
	if (row->blocks >= 0)
		table_set_real(table, K_BLOCKS, row->blocks);
	set_three(table, K_GRID, row->grid);
	set_three(table, K_BLOCK, row->block);
	table_set(table, K_REGISTERS, row->registers);
	table_set(table, K_SHARED, row->shared);
	table_set(table, K_CONFIGURATIONS, (int64_t)row->configurations);
	table_set(table, K_MEDIAN, row->median_ns);
	if (row->deviation_ns >= 0)
		table_set(table, K_DEVIATION, (int64_t)llround(row->deviation_ns));
}

struct table *report_kernels(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {columns, COLUMNS, COUNTED(keys), "s.text", "cupti", add_launches};
	struct kernel_launches *launches = NULL;

	if (!options->first_screen && report_device_ran(reader, "cupti"))
		launches = kernel_launches_read(reader, options);
	launches_now = launches;
	struct table *table = report_query(
		reader, options, &shape,
		"SELECT coalesce(s.text, '(nameless)'), t.calls, t.total, t.total * 100.0 / w.total, t.total / "
		"t.timed, t.least, t.most, t.devices, t.streams, (SELECT b.text FROM kernel_names n JOIN strings b ON "
		"b.id = n.short WHERE n.name = t.name), " NOTHING
		" t.name FROM (SELECT name, sum(calls) AS calls, " REPORT_TIMED_TOTAL " AS total, " REPORT_TIMED_CALLS
		" AS timed, min(\"min\") AS least, max(\"max\") AS most, "
		"group_concat(DISTINCT device) AS devices, group_concat(DISTINCT stream) AS streams FROM (SELECT * "
		"FROM "
		"kernel_totals WHERE" REPORT_STEP
		"ORDER BY device, stream) GROUP BY name) t JOIN (SELECT " REPORT_DEVICE_TIME
		" AS total) w LEFT JOIN strings s ON s.id = t.name WHERE t.calls > 0");
	launches_now = NULL;
	if (launches)
		kernel_launches_free(launches);
	if (report_session_options(reader) & SESSION_GRAPHS_WHOLE)
		table_note(table, "  CUDA graphs were recorded as a whole: their kernels are not here (--by graphs)");
	/* Among other tables this note is below the operators. */
	if (options->alone) {
		note_graphs(table, reader, options);
		report_note_device(table, reader, options);
	}
	return table;
}
