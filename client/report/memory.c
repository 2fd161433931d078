/* memory.c - what operators took from the framework's allocators (trigger --memory), the peaks and who held them, and
 * what was not given back. */
#include "query.h"
#include "recorded.h"
#include "views.h"

#include "client/ui/text.h"

#include "store/findings/module_paths.h"

#include <sqlite3.h>
#include <stdio.h>

/* c10::DeviceType. */
#define DEVICE_SQL(type, number)                                                                                       \
	"CASE " type " WHEN 0 THEN 'cpu' ELSE CASE " type " WHEN 1 THEN 'cuda' WHEN 6 THEN 'hip' WHEN 12 THEN 'xpu' "  \
	"WHEN 13 THEN 'mps' ELSE 'device type ' || " type " END || iif(" number " = 255, '', ':' || " number ") END"
#define ABSOLUTE_NOTE                                                                                                  \
	"  Memory from before the recording is known only for GPUs: there the allocator tells how much it has given out."

/* ---------------------------------------------------------------- headroom */

/* memory_steps with the capacity of the device, which CUPTI, or a trace, tells for CUDA's devices. Unused memory is
 * what the allocator does not hold at its peak. */
#define HEADROOM_FROM                                                                                                  \
	"memory_steps m LEFT JOIN (SELECT id, nullif(memory, 0) AS capacity FROM devices) d ON m.device_type = 1 AND " \
	"d.id = m.device"
#define HEADROOM_HELD "coalesce(reserved, iif(absolute, peak, NULL))"
#define HEADROOM_UNUSED "max(capacity - " HEADROOM_HELD ", 0)"
/* The part of the allocator's memory that was in its cache when most was given out. Captures of earlier releases lack
 * it. */
#define HEADROOM_CACHED "iif(absolute, max(peak_reserved - peak, 0), NULL)"
#define NO_CACHED "NULL"

static void note_device(struct table *table, sqlite3_stmt *row)
{
	char has[TEXT_FIGURE_BYTES], held[TEXT_FIGURE_BYTES], unused[TEXT_FIGURE_BYTES];
	const char *device = (const char *)sqlite3_column_text(row, 0);

	if (sqlite3_column_type(row, 1) == SQLITE_NULL)
		table_note(table, "  %s: it is not known how much memory it has, and how much of that was unused.",
			   device);
	else if (sqlite3_column_type(row, 2) == SQLITE_NULL)
		table_note(table, "  %s has %s; it is not known how much of that was unused.", device,
			   text_bytes(has, sqlite3_column_int64(row, 1)));
	else
		table_note(table, "  %s has %s: torch's allocator held %s at most, and did not use %s.", device,
			   text_bytes(has, sqlite3_column_int64(row, 1)),
			   text_bytes(held, sqlite3_column_int64(row, 2)),
			   text_bytes(unused, sqlite3_column_int64(row, 3)));
}

/* For each device except the CPU. step 0: at the highest peak of all steps. */
static void note_headroom(struct table *table, const struct reader *reader, int64_t step)
{
	sqlite3_stmt *statement;

	if (!report_device_ran(reader, "allocations"))
		return;
	statement = report_prepare(
		reader, "SELECT " DEVICE_SQL("device_type", "device") ", capacity, max(" HEADROOM_HELD
								      "), min(" HEADROOM_UNUSED ") FROM " HEADROOM_FROM
								      " WHERE device_type <> 0 AND" REPORT_STEP
								      "GROUP BY device_type, device");
	sqlite3_bind_int64(statement, 1, step);
	while (report_next(reader, statement))
		note_device(table, statement);
}

/* ---------------------------------------------------------------- operators */

static const struct column operator_columns[] = {
	{"name", "OPERATOR", COLUMN_TEXT, COLUMN_NAME},
	{"calls", "CALLS", COLUMN_COUNT, 0},
	{"self_cpu_bytes", "SELF CPU MEM", COLUMN_BYTES, 0},
	{"cpu_bytes", "CPU MEM", COLUMN_BYTES, 0},
	{"self_device_bytes", "SELF CUDA MEM", COLUMN_BYTES, COLUMN_OPTIONAL},
	{"device_bytes", "CUDA MEM", COLUMN_BYTES, COLUMN_OPTIONAL},
	{"taken", "TAKEN", COLUMN_COUNT, COLUMN_SPARE},
	{"taken_bytes", "BYTES", COLUMN_BYTES, 0},
	{"given_back", "GIVEN BACK", COLUMN_COUNT, COLUMN_SPARE},
	{"unknown", "OF UNKNOWN SIZE", COLUMN_COUNT, COLUMN_SPARE},
};

static const struct report_key operator_keys[] = {
	{"self_cpu_memory_usage", "m.self_cpu DESC"},
	{"cpu_memory_usage", "m.cpu DESC"},
	{"self_device_memory_usage", "m.self_device DESC"},
	{"device_memory_usage", "m.device DESC"},
	{"count", "3 DESC"},
	{"name", "s.text"},
};

static void name_outside(struct table *table, sqlite3_stmt *row)
{
	if (sqlite3_column_type(row, 0) == SQLITE_NULL)
		table_set_text(table, 0, "(outside of operators)");
}

struct table *report_memory(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(operator_columns), COUNTED(operator_keys),
						  "m.bytes DESC, s.text", "allocations", name_outside};
	struct table *table = report_query(
		reader, options, &shape,
		"WITH m AS (SELECT name, sum(self_cpu) AS self_cpu, sum(cpu) AS cpu, sum(self_device) AS self_device, "
		"sum(device) AS device, sum(taken) AS taken, sum(taken_bytes) AS bytes, sum(given_back) AS given, "
		"sum(unknown) AS unknown FROM memory_totals WHERE" REPORT_STEP "GROUP BY name), "
		"d AS (SELECT max(device_type) AS most FROM memory_steps), "
		"c AS (SELECT name, sum(calls) AS calls FROM operator_totals WHERE" REPORT_STEP "GROUP BY name) "
		"SELECT s.text, c.calls, m.self_cpu, m.cpu, iif(d.most, m.self_device, NULL), iif(d.most, m.device, NULL), "
		"m.taken, m.bytes, m.given, m.unknown FROM m JOIN d LEFT JOIN c ON c.name = m.name LEFT JOIN strings s ON "
		"s.id = m.name WHERE true");

	table_note(
		table,
		"  MEM: bytes taken less bytes given back. When a block from before the recording is given back, the CPU's "
		"allocator does not tell its size: such blocks count in no sum.");
	note_headroom(table, reader, options->step);
	return table;
}

/* ---------------------------------------------------------------- steps */

static const struct column step_columns[] = {
	{"step", "STEP", COLUMN_NUMBER, 0},
	{"device", "DEVICE", COLUMN_TEXT, 0},
	{"taken", "TAKEN", COLUMN_COUNT, COLUMN_SPARE},
	{"taken_bytes", "BYTES", COLUMN_BYTES, COLUMN_SPARE},
	{"given_back", "GIVEN BACK", COLUMN_COUNT, COLUMN_SPARE},
	{"given_back_bytes", "BYTES", COLUMN_BYTES, COLUMN_SPARE},
	{"unknown", "OF UNKNOWN SIZE", COLUMN_COUNT, COLUMN_SPARE},
	{"peak_bytes", "PEAK", COLUMN_BYTES, 0},
	{"end_bytes", "AT THE END", COLUMN_BYTES, 0},
	{"absolute", "OF ALL", COLUMN_FLAG, 0},
	{"peak_ns", "PEAK AT", COLUMN_DURATION, COLUMN_DATA_ONLY},
	{"reserved_bytes", "RESERVED", COLUMN_BYTES, COLUMN_OPTIONAL},
	{"cached_bytes", "CACHED", COLUMN_BYTES, COLUMN_OPTIONAL},
	{"capacity_bytes", "DEVICE HAS", COLUMN_BYTES, COLUMN_OPTIONAL | COLUMN_SPARE},
	{"unused_bytes", "UNUSED", COLUMN_BYTES, COLUMN_OPTIONAL},
};

struct table *report_memory_steps(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(step_columns),       NULL,	      0,
						  "device_type, device, step", "allocations", NULL};
	char sql[2048];

	snprintf(
		sql, sizeof sql,
		"SELECT step, " DEVICE_SQL(
			"device_type",
			"device") ", taken, taken_bytes, given_back, "
				  "given_back_bytes, unknown, peak, level, absolute, peak_time, reserved, cached, capacity, unused FROM "
				  "(SELECT *, " HEADROOM_UNUSED " AS unused, %s AS cached FROM " HEADROOM_FROM
				  ") WHERE" REPORT_STEP,
		report_has_column(reader, "memory_steps", "peak_reserved") ? HEADROOM_CACHED : NO_CACHED);
	struct table *table = report_query(reader, options, &shape, sql);

	table_note(
		table,
		"  PEAK and AT THE END count from what was held when the recording began; where OF ALL says yes, they are all that is held.");
	note_headroom(table, reader, options->step);
	return table;
}

/* ---------------------------------------------------------------- who held it */

enum { DEVICE, OPERATOR, PHASE, WHERE, FILE_NAME, LINE, FUNCTION, MODULE };
#define HOLDER                                                                                                         \
	[DEVICE] = {"device", "DEVICE", COLUMN_TEXT, 0},                                                               \
	[OPERATOR] = {"operator", "OPERATOR", COLUMN_TEXT, COLUMN_NAME},                                               \
	[PHASE] = {"phase", "PHASE", COLUMN_TEXT, COLUMN_OPTIONAL},                                                    \
	[WHERE] = {"where", "LINE", COLUMN_TEXT, COLUMN_TABLE_ONLY | COLUMN_OPTIONAL},                                 \
	[FILE_NAME] = {"file", "FILE", COLUMN_TEXT, COLUMN_DATA_ONLY},                                                 \
	[LINE] = {"line", "LINE", COLUMN_NUMBER, COLUMN_DATA_ONLY},                                                    \
	[FUNCTION] = {"function", "FUNCTION", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_ELASTIC},                          \
	[MODULE] = {"module", "MODULE", COLUMN_TEXT, COLUMN_OPTIONAL | COLUMN_ELASTIC}
/* For a table `h` with device_type, device, name, stack and phase. */
#define HOLDER_WITH "WITH RECURSIVE " MODULE_PATHS("true") " "
#define HOLDER_SQL                                                                                                                \
	DEVICE_SQL("h.device_type", "h.device")                                                                                   \
	" AS place, s.text AS operator, h.phase AS phase, NULL, f.text AS file, k.line AS line, n.text AS function, " MODULE_NAME \
	" AS module "
#define HOLDER_FROM                                                                                                    \
	" h LEFT JOIN strings s ON s.id = h.name LEFT JOIN stack_lines l ON l.stack = h.stack LEFT JOIN stacks k "     \
	"ON k.id = l.frame LEFT JOIN strings f ON f.id = k.file LEFT JOIN strings n ON n.id = k.function LEFT JOIN stack_modules g ON g.stack = h.stack LEFT JOIN paths p ON p.id = g.module LEFT JOIN named m ON m.id = g.module "

/* The column after the holder's is NULL if nothing in the recording took the memory. */
static void name_holder(struct table *table, sqlite3_stmt *row)
{
	char text[REPORT_LINE_BYTES];

	if (sqlite3_column_type(row, MODULE + 1) == SQLITE_NULL)
		table_set_text(table, OPERATOR, "(held from before)");
	else if (sqlite3_column_type(row, OPERATOR) == SQLITE_NULL)
		table_set_text(table, OPERATOR, "(outside of operators)");
	if (report_line(text, row, FILE_NAME, LINE))
		table_set_text(table, WHERE, text);
}

static const struct column peak_columns[] = {
	HOLDER,
	{"blocks", "BLOCKS", COLUMN_COUNT, 0},
	{"bytes", "BYTES", COLUMN_BYTES, 0},
	{"percent", "BYTES %", COLUMN_PERCENT, COLUMN_BARRED},
};

struct table *report_peak(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(peak_columns), NULL,		0,
						  "10 DESC, operator",	 "allocations", name_holder};
	struct table *table = report_query(
		reader, options, &shape,
		HOLDER_WITH
		"SELECT place, operator, phase, NULL, file, line, function, module, nullif(sum(blocks), 0), sum(bytes), "
		"sum(bytes) * 100.0 / nullif(sum(sum(bytes)) OVER (PARTITION BY place), 0) FROM (SELECT " HOLDER_SQL
		", h.blocks AS blocks, h.bytes AS bytes FROM memory_holders" HOLDER_FROM
		") GROUP BY place, operator, phase, file, line, function, module, blocks > 0");

	table_note(table, ABSOLUTE_NOTE);
	note_headroom(table, reader, 0);
	return table;
}

/* ---------------------------------------------------------------- what it was for */

static const struct column use_columns[] = {
	{"device", "DEVICE", COLUMN_TEXT, 0},
	{"use", "FOR", COLUMN_TEXT, COLUMN_NAME},
	{"blocks", "BLOCKS", COLUMN_COUNT, 0},
	{"bytes", "BYTES", COLUMN_BYTES, 0},
	{"percent", "BYTES %", COLUMN_PERCENT, COLUMN_BARRED},
};

struct table *report_memory_use(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(use_columns), NULL,	       0,
						  "device, 4 DESC, 2",	"allocations", NULL};
	struct table *table = report_query(
		reader, options, &shape,
		"SELECT " DEVICE_SQL(
			"device_type",
			"device") " AS device, use, nullif(sum(blocks), 0), sum(bytes), "
				  "sum(bytes) * 100.0 / nullif(sum(sum(bytes)) OVER (PARTITION BY device_type, device), 0) FROM memory_holders "
				  "GROUP BY device_type, device, use");

	table_note(table, ABSOLUTE_NOTE);
	note_headroom(table, reader, 0);
	return table;
}

/* ---------------------------------------------------------------- what was not given back */

static const struct column leak_columns[] = {
	HOLDER,
	{"steps", "STEPS", COLUMN_COUNT, 0},
	{"of_steps", "OF", COLUMN_COUNT, 0},
	{"blocks", "BLOCKS", COLUMN_COUNT, 0},
	{"bytes", "BYTES", COLUMN_BYTES, 0},
	{"step_bytes", "A STEP", COLUMN_BYTES, 0},
};

struct table *report_leaks(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(leak_columns),       NULL,	      0,
						  "9 DESC, 12 DESC, operator", "allocations", name_holder};
	struct table *table = report_query(
		reader, options, &shape,
		HOLDER_WITH
		"SELECT place, operator, phase, NULL, file, line, function, module, steps, w.count, blocks, bytes, bytes / steps "
		"FROM (SELECT " HOLDER_SQL
		", max(h.steps) AS steps, sum(h.blocks) AS blocks, sum(h.bytes) AS bytes FROM "
		"memory_leaks" HOLDER_FROM "GROUP BY place, operator, h.phase, file, line, function, g.module), "
		"(SELECT max(count(*) - 2, 0) AS count FROM steps) w WHERE steps > 0");

	table_note(table, "  Blocks of the last two steps are not looked at: they may still be given back.");
	return table;
}
