/* device_memory.c - memory of the devices that was taken and given back during the recording (trigger --memory). */
#include "query.h"
#include "views.h"

#include "proto/events.h"

#include <sqlite3.h>

enum { M_DEVICE, M_SOURCE, M_KIND };

static const struct column columns[] = {
	[M_DEVICE] = {"device", "DEVICE", COLUMN_NUMBER, 0},
	[M_SOURCE] = {"source", "BY", COLUMN_TEXT, 0},
	[M_KIND] = {"memory", "MEMORY", COLUMN_TEXT, 0},
	{"taken", "TAKEN", COLUMN_COUNT, 0},
	{"taken_bytes", "BYTES", COLUMN_BYTES, 0},
	{"given_back", "GIVEN BACK", COLUMN_COUNT, 0},
	{"given_back_bytes", "BYTES", COLUMN_BYTES, 0},
	{"peak_bytes", "PEAK", COLUMN_BYTES, 0},
	{"kept_bytes", "KEPT", COLUMN_BYTES, 0},
};

static void name(struct table *table, sqlite3_stmt *row)
{
	const char *kind = memory_kind_word((unsigned)sqlite3_column_int64(row, M_KIND));
	const char *source = "unknown";

	switch (sqlite3_column_int(row, M_SOURCE)) {
	case ALLOCATION_CUPTI:
		source = "cuda";
		break;
	case ALLOCATION_POOL:
		source = "pool";
		break;
	case ALLOCATION_TORCH:
		source = "torch";
		break;
	}
	table_set_text(table, M_SOURCE, source);
	table_set_text(table, M_KIND, kind ? kind : "Unknown");
}

/* The peak and what was kept count from what was held when the recording, or the step, began. */
struct table *report_device_memory(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(columns), NULL, 0, "5 DESC", "memory", name};

	_Static_assert(ALLOCATION_TAKEN == 1 && ALLOCATION_GIVEN_BACK == 2, "as the statement below has them");
	struct table *table = report_query(
		reader, options, &shape,
		"WITH e AS (SELECT device, source, memory_kind, operation, bytes, sum(CASE operation WHEN 1 THEN "
		"bytes ELSE -bytes END) OVER (PARTITION BY device, source, memory_kind ORDER BY time, rowid ROWS "
		"UNBOUNDED PRECEDING) AS level FROM allocations WHERE operation IN (1, 2) AND" REPORT_STEP ") "
		"SELECT device, source, memory_kind, sum(operation = 1), sum((operation = 1) * bytes), "
		"sum(operation = "
		"2), sum((operation = 2) * bytes), max(max(level), 0), sum(CASE operation WHEN 1 THEN "
		"bytes ELSE -bytes "
		"END) FROM e GROUP BY device, source, memory_kind");
	table_note(table, "  PEAK and KEPT count from what was held when the recording (or the step) began");
	return table;
}
