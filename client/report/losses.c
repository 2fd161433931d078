/* losses.c - events that are missing or incomplete, and which collectors ran. */
#include "losses.h"

#include "query.h"
#include "views.h"

#include "proto/collectors.h"

#include <sqlite3.h>
#include <string.h>

static const struct column loss_columns[] = {
	{"kind", "KIND", COLUMN_TEXT, 0},
	{"loss", "LOSS", COLUMN_TEXT, COLUMN_DATA_ONLY},
	{"count", "COUNT", COLUMN_COUNT, 0},
	{"is_loss", "DROPPED", COLUMN_FLAG, 0},
	{"sentence", "WHAT HAPPENED", COLUMN_TEXT, COLUMN_WRAP},
};

struct table *report_dropped(const struct reader *reader, const struct report_options *options)
{
	(void)options;
	struct table *table = table_new(COUNTED(loss_columns));
	sqlite3_stmt *statement = report_prepare(reader, "SELECT kind, loss, count, is_loss, sentence FROM losses "
							 "WHERE count > 0 ORDER BY is_loss DESC, count DESC");

	while (report_next(reader, statement)) {
		table_add(table);
		for (int c = 0; c < (int)(sizeof loss_columns / sizeof *loss_columns); c++)
			report_cell(table, (size_t)c, statement, c);
	}
	return table;
}

static const struct column collector_columns[] = {
	{"collector", "COLLECTOR", COLUMN_TEXT, 0},
	{"wanted", "WANTED", COLUMN_FLAG, 0},
	{"on", "ON", COLUMN_FLAG, 0},
	{"enable_ns", "SWITCHED ON IN", COLUMN_DURATION, 0},
	{"sentence", "WHAT IT RECORDS, OR WHY NOT", COLUMN_TEXT, COLUMN_WRAP},
};

struct table *report_collectors(const struct reader *reader)
{
	struct table *table = table_new(COUNTED(collector_columns));
	sqlite3_stmt *statement = report_prepare(
		reader, "SELECT collector, wanted, ran, enable, sentence FROM collectors ORDER BY ran DESC, collector");

	while (report_next(reader, statement)) {
		const char *collector = (const char *)sqlite3_column_text(statement, 0);
		bool silent = sqlite3_column_int(statement, 2) && !sqlite3_column_bytes(statement, 4);

		table_add(table);
		for (int c = 0; c < (int)(sizeof collector_columns / sizeof *collector_columns); c++)
			report_cell(table, (size_t)c, statement, c);
		/* A collector that ran has nothing to explain. */
		for (unsigned bit = 0; silent && bit < COLLECTOR_COUNT; bit++)
			if (collector_word(bit) && strcmp(collector, collector_word(bit)) == 0)
				table_set_text(table, 4, collector_facts(bit)->records);
	}
	return table;
}
