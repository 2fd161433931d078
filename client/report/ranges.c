/* ranges.c - named intervals of the host (NVTX, profd_range, record_function) by name, domain and source. Their share
 * is of the wall time of the steps: ranges of several threads, or one inside another, add up to more than all of it. */
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "proto/events.h"

#include <sqlite3.h>
#include <stdio.h>

#define NO_PROFILER_STEPS "name NOT IN (SELECT id FROM strings WHERE text GLOB 'ProfilerStep#[0-9]*') AND"

enum { R_NAME, R_DOMAIN, R_SOURCE };

static const struct column columns[] = {
	[R_NAME] = {"name", "RANGE", COLUMN_TEXT, COLUMN_NAME},
	[R_DOMAIN] = {"domain", "DOMAIN", COLUMN_TEXT, COLUMN_ELASTIC | COLUMN_OPTIONAL},
	[R_SOURCE] = {"source", "FROM", COLUMN_TEXT, COLUMN_SPARE},
	{"calls", "CALLS", COLUMN_COUNT, 0},
	{"total_ns", "TOTAL", COLUMN_DURATION, 0},
	{"wall_percent", "WALL %", COLUMN_PERCENT, COLUMN_SPARE | COLUMN_BARRED},
	{"self_ns", "SELF", COLUMN_DURATION, 0},
	{"average_ns", "AVG", COLUMN_DURATION, COLUMN_SPARE},
	{"min_ns", "MIN", COLUMN_DURATION, COLUMN_SPARE},
	{"max_ns", "MAX", COLUMN_DURATION, COLUMN_SPARE},
	{"self_device_ns", "SELF DEVICE", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
	{"device_ns", "DEVICE TOTAL", COLUMN_DURATION, COLUMN_OPTIONAL},
	{"device_percent", "DEVICE %", COLUMN_PERCENT, COLUMN_OPTIONAL | COLUMN_SPARE},
	{"device_average_ns", "DEVICE AVG", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
	{"device_span_ns", "DEVICE SPAN", COLUMN_DURATION, COLUMN_OPTIONAL | COLUMN_SPARE},
};

static const struct report_key keys[] = {
	{"cpu_time_total", "t.total DESC"},
	{"self_cpu_time_total", "t.self DESC"},
	{"cpu_time", "t.total * 1.0 / t.calls DESC"},
	{"self_device_time_total", "t.self_device DESC, t.total DESC"},
	{"device_time_total", "t.device DESC, t.total DESC"},
	{"device_time", "t.device * 1.0 / t.calls DESC, t.total DESC"},
	{"count", "t.calls DESC"},
	{"name", "s.text"},
};

#define DEVICE "sum(self_device) AS self_device, sum(device) AS device"
#define NO_DEVICE "NULL AS self_device, NULL AS device"
/* From the first to the last operation that was launched in the range on the same thread, summed over its calls: the
 * range's length on the device's tracks. */
#define SPAN                                                                                                           \
	"(SELECT r.name AS name, r.domain AS domain, r.source AS source, sum(d.last - d.first) AS ns FROM "            \
	"range_devices d JOIN ranges r ON r.id = d.id WHERE (?1 = 0 OR r.step = ?1) GROUP BY r.name, r.domain, "       \
	"r.source)"
#define NO_SPAN "(SELECT NULL AS name, NULL AS domain, NULL AS source, NULL AS ns LIMIT 0)"

static void name(struct table *table, sqlite3_stmt *row)
{
	const char *source = range_source_word((unsigned)sqlite3_column_int(row, R_SOURCE));

	table_set_text(table, R_SOURCE, source ? source : "unknown");
}

struct table *report_ranges(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(columns), COUNTED(keys), "s.text", NULL, name};
	bool gpu = report_attributed(reader);
	char sql[2560];

	snprintf(sql, sizeof sql,
		 "SELECT coalesce(s.text, '(nameless)'), d.text, t.source, t.calls, t.total, t.total * 100.0 / w.wall, "
		 "t.self, t.total / t.calls, "
		 "t.least, t.most, t.self_device, t.device, t.device * 100.0 / w.device, t.device / t.calls, p.ns FROM "
		 "(SELECT name, domain, source, sum(calls) AS calls, sum(total) AS total, sum(self) AS self, "
		 "min(\"min\") AS least, max(\"max\") AS most, %s FROM range_totals WHERE %s" REPORT_STEP
		 "GROUP BY name, domain, source) t JOIN (SELECT nullif(%s, 0) AS device, (SELECT nullif(sum(duration), "
		 "0) FROM steps WHERE" REPORT_STEP ") AS wall) w LEFT JOIN %s p ON p.name = "
		 "t.name AND p.domain IS t.domain AND p.source = t.source LEFT JOIN strings s ON s.id = t.name "
		 "LEFT JOIN strings d ON d.id = t.domain",
		 gpu ? DEVICE : NO_DEVICE, options->first_screen ? NO_PROFILER_STEPS : "",
		 gpu ? REPORT_DEVICE_TIME : "NULL", gpu ? SPAN : NO_SPAN);
	struct table *table = report_query(reader, options, &shape, sql);
	report_note_unattributed(table, reader);
	return table;
}
