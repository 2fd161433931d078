/* copies.c - copies and sets of device memory, by kinds of memory; named as Kineto names them. */
#include "query.h"
#include "views.h"

#include "proto/events.h"

#include <sqlite3.h>
#include <stdio.h>

/* The columns after the words, in both tables. */
#define FIGURES                                                                                                        \
	{"calls", "CALLS", COLUMN_COUNT, 0}, {"bytes", "BYTES", COLUMN_BYTES, 0},                                      \
		{"total_ns", "TOTAL", COLUMN_DURATION, 0}, {"percent", "DEVICE %", COLUMN_PERCENT, COLUMN_SPARE},      \
		{"bandwidth_gb_s", "BANDWIDTH", COLUMN_RATE, 0}, {"average_ns", "AVG", COLUMN_DURATION, COLUMN_SPARE}, \
		{"min_ns", "MIN", COLUMN_DURATION, COLUMN_SPARE}, {"max_ns", "MAX", COLUMN_DURATION, COLUMN_SPARE},    \
		{"devices", "DEVICES", COLUMN_LIST, COLUMN_SPARE},                                                     \
	{                                                                                                              \
		"streams", "STREAMS", COLUMN_LIST, COLUMN_SPARE                                                        \
	}
#define FIGURES_SQL                                                                                                    \
	"sum(calls), sum(bytes), " REPORT_TIMED_TOTAL ", " REPORT_TIMED_TOTAL " * 100.0 / " REPORT_DEVICE_TIME         \
	", sum(bytes) * 1.0 / nullif(sum(total), 0), sum(total) / " REPORT_TIMED_CALLS ", min(\"min\"), "              \
	"max(\"max\"), group_concat(DISTINCT device), group_concat(DISTINCT stream)"

enum { C_NAME, C_KIND, C_SOURCE, C_TARGET };

static const struct column copy_columns[] = {
	[C_NAME] = {"name", "COPY", COLUMN_TEXT, 0},
	[C_KIND] = {"kind", "KIND", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[C_SOURCE] = {"source", "SOURCE", COLUMN_TEXT, COLUMN_DATA_ONLY},
	[C_TARGET] = {"target", "TARGET", COLUMN_TEXT, COLUMN_DATA_ONLY},
	FIGURES,
};

enum { E_NAME, E_KIND };

static const struct column set_columns[] = {
	[E_NAME] = {"name", "MEMSET", COLUMN_TEXT, 0},
	[E_KIND] = {"memory", "MEMORY", COLUMN_TEXT, COLUMN_DATA_ONLY},
	FIGURES,
};

static const struct report_key keys[] = {
	{"device_time_total", "sum(total) DESC"},
	{"device_time", "sum(total) * 1.0 / " REPORT_TIMED_CALLS " DESC"},
	{"count", "sum(calls) DESC"},
	{"name", "1"},
};

static const char *word_of(const char *(*words)(unsigned number), sqlite3_stmt *row, int column)
{
	const char *word = words((unsigned)sqlite3_column_int64(row, column));

	return word ? word : "Unknown";
}

static void name_copy(struct table *table, sqlite3_stmt *row)
{
	const char *kind = word_of(copy_kind_word, row, C_KIND);
	const char *source = word_of(memory_kind_word, row, C_SOURCE);
	const char *target = word_of(memory_kind_word, row, C_TARGET);
	char name[96];

	snprintf(name, sizeof name, "Memcpy %s (%s -> %s)", kind, source, target);
	table_set_text(table, C_NAME, name);
	table_set_text(table, C_KIND, kind);
	table_set_text(table, C_SOURCE, source);
	table_set_text(table, C_TARGET, target);
}

static void name_set(struct table *table, sqlite3_stmt *row)
{
	const char *kind = word_of(memory_kind_word, row, E_KIND);
	char name[96];

	snprintf(name, sizeof name, "Memset (%s)", kind);
	table_set_text(table, E_NAME, name);
	table_set_text(table, E_KIND, kind);
}

struct table *report_copies(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(copy_columns), COUNTED(keys), "1, 3, 4", "cupti", name_copy};

	return report_query(reader, options, &shape,
			    "SELECT kind, kind, source_kind, target_kind, " FIGURES_SQL
			    " FROM (SELECT * FROM copy_totals WHERE" REPORT_STEP
			    "ORDER BY device, stream) GROUP BY kind, source_kind, target_kind HAVING sum(calls) > 0");
}

struct table *report_memsets(const struct reader *reader, const struct report_options *options)
{
	static const struct report_shape shape = {COUNTED(set_columns), COUNTED(keys), "1", "cupti", name_set};

	return report_query(reader, options, &shape,
			    "SELECT memory_kind, memory_kind, " FIGURES_SQL
			    " FROM (SELECT * FROM set_totals WHERE" REPORT_STEP
			    "ORDER BY device, stream) GROUP BY memory_kind HAVING sum(calls) > 0");
}
