/* devices.c - the devices of the process and their streams, and how busy they were. */
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "client/ui/text.h"

#include "proto/events.h"

#include <sqlite3.h>
#include <stdio.h>

enum { D_DEVICE, D_NAME, D_UUID };

#define BUSY_COLUMNS                                                                                                   \
	{"busy_ns", "BUSY", COLUMN_DURATION, 0}, {"busy_percent", "BUSY %", COLUMN_PERCENT, 0},                        \
		{"kernel_busy_ns", "BY KERNELS", COLUMN_DURATION, COLUMN_SPARE},                                       \
		{"kernels", "KERNELS", COLUMN_COUNT, 0}, {"copies", "COPIES", COLUMN_COUNT, 0},                        \
		{"sets", "MEMSETS", COLUMN_COUNT, COLUMN_SPARE}, {"graphs", "GRAPHS", COLUMN_COUNT, COLUMN_OPTIONAL},  \
	{                                                                                                              \
		"largest_gap_ns", "LARGEST GAP", COLUMN_DURATION, 0                                                    \
	}

static const struct column device_columns[] = {
	[D_DEVICE] = {"device", "DEVICE", COLUMN_NUMBER, 0},
	[D_NAME] = {"name", "NAME", COLUMN_TEXT, COLUMN_ELASTIC},
	[D_UUID] = {"uuid", "UUID", COLUMN_TEXT, COLUMN_DATA_ONLY},
	BUSY_COLUMNS,
	{"memory_bytes", "MEMORY", COLUMN_BYTES, COLUMN_SPARE},
	{"multiprocessors", "SMS", COLUMN_NUMBER, COLUMN_SPARE},
	{"capability", "CAPABILITY", COLUMN_TEXT, COLUMN_SPARE},
};

static const struct column stream_columns[] = {
	{"device", "DEVICE", COLUMN_NUMBER, 0},
	{"stream", "STREAM", COLUMN_NUMBER, 0},
	{"name", "NAME", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_ELASTIC},
	{"priority", "PRIORITY", COLUMN_NUMBER, COLUMN_OPTIONAL | COLUMN_SPARE},
	BUSY_COLUMNS,
};

/* `w` has no row for a device that did nothing. Graphs are counted only if they were recorded as a whole. */
#define BUSY                                                                                                           \
	"coalesce(w.busy, 0), coalesce(w.busy, 0) * 100.0 / nullif((SELECT sum(duration) FROM steps WHERE" REPORT_STEP \
	"), 0), coalesce(w.kernel_busy, 0), coalesce(w.kernels, 0), %s, %s, CASE "                                     \
	"WHEN (SELECT sum(graphs) FROM step_devices) > 0 THEN coalesce(w.graphs, 0) END, w.gap"
#define BUSY_OF(where)                                                                                                 \
	"w AS (SELECT device, stream, max(context) AS context, sum(busy) AS busy, sum(kernel_busy) AS kernel_busy, "   \
	"sum(kernels) AS kernels, sum(copies) AS copies, sum(sets) AS sets, sum(graphs) AS graphs, max(gap) AS gap "   \
	"FROM step_devices WHERE " where " AND" REPORT_STEP "GROUP BY device, stream)"

/* Runs the query. The figures of copies and memsets are NULL if these were not recorded. */
static struct table *query(const struct reader *reader, const struct report_options *options,
			   const struct report_shape *shape, const char *format)
{
	struct table *table;
	char *sql = sqlite3_mprintf(format, report_refused(reader, REPORT_COPIES) ? "NULL" : "coalesce(w.copies, 0)",
				    report_refused(reader, REPORT_SETS) ? "NULL" : "coalesce(w.sets, 0)");

	table = report_query(reader, options, shape, need(sql));
	sqlite3_free(sql);
	return table;
}

static void name_device(struct table *table, sqlite3_stmt *row)
{
	uint64_t halves[2] = {(uint64_t)sqlite3_column_int64(row, D_UUID), 0};
	char text[48];
	size_t n = (size_t)snprintf(text, sizeof text, "GPU-");
	const char *dashes = "\x04\x06\x08\x0a";

	table_unset(table, D_UUID);
	halves[1] = (uint64_t)sqlite3_column_int64(row, sqlite3_column_count(row) - 1);
	if (!(halves[0] | halves[1]))
		return;
	for (unsigned i = 0; i < 16; i++) {
		if (*dashes && i == (unsigned)*dashes) {
			text[n++] = '-';
			dashes++;
		}
		n += (size_t)snprintf(text + n, sizeof text - n, "%02x",
				      (unsigned)(halves[i / 8] >> 8 * (i % 8)) & 0xff);
	}
	table_set_text(table, D_UUID, text);
}

struct table *report_devices(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(device_columns), NULL, 0, "a.id", "cupti", name_device};

	return query(reader, options, &shape,
		     "WITH " BUSY_OF("stream = -1") ", a AS (SELECT id FROM devices UNION SELECT device FROM w) "
						    "SELECT a.id, s.text, d.uuid_low, " BUSY
						    ", nullif(d.memory, 0), d.multiprocessors, "
						    "d.capability_major || '.' || d.capability_minor, "
						    "d.uuid_high FROM a LEFT JOIN devices d ON "
						    "d.id = a.id LEFT JOIN w ON w.device = a.id LEFT JOIN "
						    "strings s ON s.id = d.name");
}

struct table *report_streams(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(stream_columns),	     NULL,    0,
						  "w.busy DESC, w.device, w.stream", "cupti", NULL};

	return query(reader, options, &shape,
		     "WITH " BUSY_OF(
			     "stream >= 0") " SELECT w.device, w.stream, n.text, s.priority, " BUSY
					    " FROM w LEFT JOIN streams s ON s.context = w.context AND s.id = w.stream "
					    "LEFT JOIN strings n ON n.id = s.name");
}
