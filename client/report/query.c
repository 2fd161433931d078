/* query.c - see query.h. */
#include "query.h"

#include "client/ui/failure.h"
#include "client/ui/text.h"
#include "recorded.h"
#include "views.h"

#include "store/breakdown/load.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void report_damaged(const struct reader *reader)
{
	char why[FAILURE_TEXT_BYTES];

	reader_why(reader, why, sizeof why);
	exit(fail(EXIT_FAILED, "%s", why));
}

sqlite3_stmt *report_prepare(const struct reader *reader, const char *sql)
{
	sqlite3_stmt *statement = NULL;

	if (sqlite3_prepare_v2(reader->db, sql, -1, &statement, NULL) != SQLITE_OK)
		report_damaged(reader);
	return statement;
}

bool report_next(const struct reader *reader, sqlite3_stmt *statement)
{
	int result = sqlite3_step(statement);

	if (result == SQLITE_ROW && bounds_row(reader->bounds))
		return true;
	if (result != SQLITE_DONE)
		report_damaged(reader);
	sqlite3_finalize(statement);
	return false;
}

static bool may_go_on(void *context)
{
	return bounds_row(context);
}

void report_scan(const struct reader *reader, const char *sql, int64_t step,
		 void (*take)(void *context, sqlite3_value **row), void *context)
{
	const struct breakdown_watch watch = {.row = may_go_on, .context = reader->bounds};
	struct scan scan;

	scan_begin(&scan, reader->db, &watch);
	scan.parameter = step;
	scan_table(&scan, sql, take, context);
	scan_end(&scan);
	if (scan.error == SQLITE_NOMEM)
		need(NULL);
	if (scan.error)
		report_damaged(reader);
}

void report_cell(struct table *table, size_t column, sqlite3_stmt *statement, int from)
{
	switch (sqlite3_column_type(statement, from)) {
	case SQLITE_NULL:
		break;
	case SQLITE_TEXT:
		table_set_text(table, column, (const char *)sqlite3_column_text(statement, from));
		break;
	default:
		table_set(table, column, sqlite3_column_int64(statement, from));
		break;
	}
}

/* Is `key` the same as `known`, which may say device_ where torch.profiler's older releases say cuda_? */
static bool is_key(const char *key, const char *known)
{
	static const char newer[] = "device_", older[] = "cuda_";
	const char *at = strstr(known, newer);
	size_t head = at ? (size_t)(at - known) : 0;

	if (strcmp(key, known) == 0)
		return true;
	return at && strncmp(key, known, head) == 0 && strncmp(key + head, older, sizeof older - 1) == 0 &&
	       strcmp(key + head + sizeof older - 1, at + sizeof newer - 1) == 0;
}

const char *report_order(const struct report_key *keys, size_t count, const char *key)
{
	for (size_t i = 0; key && i < count; i++)
		if (is_key(key, keys[i].key))
			return keys[i].sql;
	return keys[0].sql;
}

struct table *report_query(const struct reader *reader, const struct report_options *options,
			   const struct report_shape *shape, const char *sql)
{
	struct table *table = table_new(shape->columns, shape->count);
	const char *order = shape->keys ? report_order(shape->keys, shape->key_count, options->sort_by) : "";
	sqlite3_stmt *statement;
	char *whole = NULL;

	if (shape->collector && !report_device_ran(reader, shape->collector))
		return table;
	if (asprintf(&whole, "%s ORDER BY %s%s%s", sql, order, *order ? ", " : "", shape->ties) < 0)
		need(NULL);
	statement = report_prepare(reader, whole);
	free(whole);
	if (sqlite3_bind_parameter_count(statement) > 0)
		sqlite3_bind_int64(statement, 1, options->step);
	while (report_next(reader, statement)) {
		table_add(table);
		for (size_t c = 0; c < shape->count; c++) {
			enum column_kind kind = shape->columns[c].kind;

			if ((kind == COLUMN_PERCENT || kind == COLUMN_RATE || kind == COLUMN_SPEED ||
			     kind == COLUMN_RATIO) &&
			    sqlite3_column_type(statement, (int)c) != SQLITE_NULL)
				table_set_real(table, c, sqlite3_column_double(statement, (int)c));
			else
				report_cell(table, c, statement, (int)c);
		}
		if (shape->finish)
			shape->finish(table, statement);
	}
	return table;
}

bool report_key_is_device(const char *key)
{
	return strstr(key, "device_") || strstr(key, "cuda_");
}

static int64_t single(const struct reader *reader, const char *sql, const struct report_options *options)
{
	sqlite3_stmt *statement = report_prepare(reader, sql);
	int64_t value = 0;

	sqlite3_bind_int64(statement, 1, options->step);
	while (report_next(reader, statement))
		value = sqlite3_column_int64(statement, 0);
	return value;
}

bool report_has_column(const struct reader *reader, const char *table, const char *column)
{
	sqlite3_stmt *statement = report_prepare(reader, "SELECT 1 FROM pragma_table_info(?1, 'main') WHERE name = ?2");
	bool has = false;

	sqlite3_bind_text(statement, 1, table, -1, SQLITE_STATIC);
	sqlite3_bind_text(statement, 2, column, -1, SQLITE_STATIC);
	while (report_next(reader, statement))
		has = true;
	return has;
}

int64_t report_self_cpu_total(const struct reader *reader, const struct report_options *options)
{
	return report_filled(reader, FILLS_OPERATORS)
		       ? single(reader, "SELECT sum(self) FROM operator_totals WHERE" REPORT_STEP, options)
		       : -1;
}

int64_t report_device_total(const struct reader *reader, const struct report_options *options)
{
	return report_gpu(reader) ? single(reader, "SELECT " REPORT_DEVICE_TIME, options) : -1;
}

void report_note_unattributed(struct table *table, const struct reader *reader)
{
	if (report_gpu(reader) && !report_attributed(reader))
		table_note(table, "What launched the work of the devices was not recorded: no calls of the CUDA API.");
}

void report_note_device(struct table *table, const struct reader *reader, const struct report_options *options)
{
	int64_t device = report_device_total(reader, options);
	char figure[TEXT_FIGURE_BYTES];

	if (device >= 0)
		table_note(table, "Self CUDA time total: %s", text_duration(figure, device));
}

bool report_line(char to[REPORT_LINE_BYTES], sqlite3_stmt *row, int file, int number)
{
	const char *path = (const char *)sqlite3_column_text(row, file);

	if (path && sqlite3_column_int64(row, number))
		snprintf(to, REPORT_LINE_BYTES, "%s:%lld", text_base_name(path),
			 (long long)sqlite3_column_int64(row, number));
	else if (path)
		snprintf(to, REPORT_LINE_BYTES, "%s", text_base_name(path));
	return path != NULL;
}
