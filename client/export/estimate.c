/* estimate.c - see estimate.h. What a row takes was measured on exports of recorded traces. */
#include "estimate.h"

#include "chrome/functions.h"
#include "memory_viz/memory_viz.h"
#include "slice.h"

#include <sqlite3.h>
#include <stdio.h>

/* Rows of which the texts are looked at. */
#define SAMPLE 2000
/* gzip leaves so much of a trace's text, %. */
#define PACKED_PERCENT 11
/* Head, names of tracks, an empty database with its tables. */
#define TRACE_BASE 4000
#define TABLES_BASE 150000
/* Of a call of Python, with its texts. */
#define FUNCTION_BYTES 275
/* Of a sample of a stack, and of each different stack of a thread, with its texts and some of those that called it. */
#define SAMPLE_BYTES 10
#define STACK_BYTES 360

#define OPERATORS 0
static const struct {
	const char *table;
	bool device; /* it did it: chosen by device, and by the call, which `launches` has */
	const char *time, *duration;
	const char *text, *kept; /* length of a row's texts: in a trace; in a table, where ids do not stand for them */
	int trace, tables;	 /* bytes of a row beside its texts */
} sources[] = {
	[OPERATORS] =
		{"operators", false, "start", "duration",
		 "length((SELECT text FROM strings WHERE id = x.name)) + coalesce((SELECT length(dims) + length(types) + length(strides) + "
		 "length(concrete) + 70 FROM inputs WHERE id = x.inputs), 0)",
		 "(SELECT length(dims) + length(types) FROM inputs WHERE id = x.inputs)", 150, 40},
	{"ranges", false, "start", "duration", "length((SELECT text FROM strings WHERE id = x.name))",
	 "length((SELECT text FROM strings WHERE id = x.name))", 150, 70},
	{"marks", false, "time", "0", "length((SELECT text FROM strings WHERE id = x.name))",
	 "length((SELECT text FROM strings WHERE id = x.name))", 120, 60},
	{"api_calls", false, "start", "duration", "length((SELECT text FROM strings WHERE id = x.name))", "0", 155, 35},
	{"kernel_records", true, "start", "duration",
	 "coalesce((SELECT length(s.text) FROM strings s JOIN kernel_names n ON n.name = s.id WHERE n.mangled = x.name), "
	 "(SELECT length(text) FROM strings WHERE id = x.name))",
	 "0", 520, 110},
	{"copy_records", true, "start", "duration", "0", "0", 400, 95},
	{"set_records", true, "start", "duration", "0", "0", 390, 85},
	{"graph_records", true, "start", "duration", "0", "0", 400, 95},
	{"syncs", false, "start", "duration", "0", "0", 330, 50},
	{"framework_allocations", false, "time", "0", "0", "0", 200, 0},
	{"allocations", false, "time", "0", "0", "0", 0, 60},
	{"overheads", false, "start", "duration", "0", "0", 160, 0},
};

static int64_t rows_of(const struct reader *r, size_t source, bool all)
{
	char sql[512];
	if (all)
		snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE rowid > -1", sources[source].table);
	else if (sources[source].device)
		snprintf(sql, sizeof sql,
			 "SELECT count(*) FROM %s x LEFT JOIN launches l ON l.correlation = x.correlation WHERE "
			 "profd_device_part(x.device) AND (profd_part(x.start, x.duration) OR (l.start IS NOT NULL AND "
			 "profd_part(l.start, l.duration)))",
			 sources[source].table);
	else
		snprintf(sql, sizeof sql, "SELECT count(*) FROM %s x WHERE profd_part(x.%s, %s)", sources[source].table,
			 sources[source].time, sources[source].duration);
	return reader_count(r, sql, 0);
}

static int64_t samples_bytes(const struct reader *r, int64_t *events)
{
	int64_t samples = reader_count(r, "SELECT count(*) FROM samples WHERE profd_part(time, 0)", 0);
	int64_t stacks = reader_count(
		r, "SELECT count(DISTINCT thread << 32 | stack) FROM samples WHERE profd_part(time, 0)", 0);
	*events += samples;
	return samples * SAMPLE_BYTES + stacks * STACK_BYTES;
}

/* Bytes of a row's texts, on the average of those that come first. */
static int64_t text_of(const struct reader *r, size_t source, bool tables)
{
	char sql[640];
	snprintf(sql, sizeof sql, "SELECT CAST(avg(coalesce(%s, 0)) AS INTEGER) FROM (SELECT * FROM %s LIMIT %d) x",
		 tables ? sources[source].kept : sources[source].text, sources[source].table, SAMPLE);
	return reader_count(r, sql, 0);
}

static int estimate_blocks(struct estimate *estimate, const struct reader *r)
{
	int64_t rows = reader_count(r, "SELECT count(*) FROM framework_allocations", 0);
	rows = rows < MEMORY_VIZ_RECORDS ? rows : MEMORY_VIZ_RECORDS;
	estimate->events += rows;
	estimate->bytes += TRACE_BASE + rows * MEMORY_VIZ_RECORD_BYTES;
	return 0;
}

int estimate_add(struct estimate *estimate, const struct export_format *format, const struct reader *r,
		 const struct export_options *options, const char *path, char *why, size_t why_bytes)
{
	bool tables = format->abilities & EXPORT_TABLES;
	struct slice slice;
	if (format->abilities & EXPORT_BLOCKS)
		return estimate_blocks(estimate, r);
	int64_t bytes = tables ? TABLES_BASE : TRACE_BASE;
	int error = slice_find(&slice, r, options, why, why_bytes);
	if (!error && slice_register(&slice, r)) {
		reader_why(r, why, why_bytes);
		error = -1;
	}
	bool all = !slice.timed && !slice.device_count;
	for (size_t i = 0; i < sizeof sources / sizeof *sources && !error; i++) {
		int64_t rows = rows_of(r, i, all), each = tables ? sources[i].tables : sources[i].trace;
		estimate->events += rows;
		if (rows && each)
			bytes += rows * (each + text_of(r, i, tables));
	}
	if (!error && format->abilities & EXPORT_PYTHON) {
		int64_t calls = functions_estimate(r, rows_of(r, OPERATORS, all));
		estimate->events += calls;
		bytes += calls * FUNCTION_BYTES;
	}
	if (!error && format->abilities & EXPORT_SAMPLES)
		bytes += samples_bytes(r, &estimate->events);
	if (tables && !error)
		bytes += reader_count(r, "SELECT sum(length(text)) + 12 * count(*) FROM strings", 0);
	slice_unregister(r);
	slice_deinit(&slice);
	estimate->bytes += export_is_packed(options, path) ? bytes * PACKED_PERCENT / 100 : bytes;
	return error;
}
