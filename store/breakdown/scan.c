/* scan.c - see scan.h. */
#include "scan.h"

#include "load.h"
#include "pages.h"

#include "proto/base/large.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool enough(const struct scan *scan)
{
	return scan->watch && !scan->watch->row(scan->watch->context);
}

/* profd_row() stands in the WHERE of scan_table(). It gets the columns, and keeps the row out of the result. */
static void take_row(sqlite3_context *context, int count, sqlite3_value **row)
{
	struct scan *const *running = sqlite3_user_data(context);
	struct scan *scan = *running;
	(void)count;
	if (!scan)
		return;
	if (!scan->error && enough(scan))
		scan->error = SQLITE_CORRUPT;
	/* About what is kept of a row. */
	large_go(128);
	if (!scan->error)
		scan->take(scan->context, row);
	if (scan->error)
		sqlite3_result_error_code(context, scan->error);
	else
		sqlite3_result_int(context, 0);
}

void scan_begin(struct scan *scan, sqlite3 *db, const struct breakdown_watch *watch)
{
	*scan = (struct scan){.db = db, .watch = watch, .running = calloc(1, sizeof *scan->running)};
	if (!scan->running) {
		scan->error = SQLITE_NOMEM;
		return;
	}
	*scan->running = scan;
	/* If that fails, SQLite has freed `running`. */
	scan->error = sqlite3_create_function_v2(db, "profd_row", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, scan->running,
						 take_row, NULL, NULL, free);
	if (scan->error)
		scan->running = NULL;
}

bool scan_has(sqlite3 *db, const char *table, const char *column)
{
	return sqlite3_table_column_metadata(db, "main", table, column, NULL, NULL, NULL, NULL, NULL) == SQLITE_OK;
}

void scan_end(struct scan *scan)
{
	if (scan->running)
		*scan->running = NULL;
	free(scan->pages);
}

void scan_each(struct scan *scan, const char *sql, void (*take)(void *context, sqlite3_stmt *row), void *context)
{
	sqlite3_stmt *statement = NULL;
	if (scan->error)
		return;
	scan->error = sqlite3_prepare_v2(scan->db, sql, -1, &statement, NULL);
	while (!scan->error) {
		int result = sqlite3_step(statement);
		if (result == SQLITE_ROW && enough(scan))
			scan->error = SQLITE_CORRUPT;
		else if (result == SQLITE_ROW)
			take(context, statement);
		else if (result == SQLITE_DONE)
			break;
		else
			scan->error = result;
	}
	sqlite3_finalize(statement);
}

void scan_table(struct scan *scan, const char *sql, void (*take)(void *context, sqlite3_value **row), void *context)
{
	sqlite3_stmt *statement = NULL;
	if (scan->error)
		return;
	scan->take = take;
	scan->context = context;
	int result = sqlite3_prepare_v2(scan->db, sql, -1, &statement, NULL);
	if (!result && sqlite3_bind_parameter_count(statement))
		result = sqlite3_bind_int64(statement, 1, scan->parameter);
	if (!result)
		result = sqlite3_step(statement);
	if (result == SQLITE_ROW)
		result = sqlite3_step(statement);
	if (result != SQLITE_DONE && !scan->error)
		scan->error = result;
	sqlite3_finalize(statement);
}

/* A row from pages.h. False: reading ends. */
static bool take_columns(void *context, const struct scan_row *row)
{
	struct scan *scan = context;
	if (enough(scan))
		scan->error = SQLITE_CORRUPT;
	large_go(128);
	if (!scan->error)
		scan->take_row(scan->row_context, row);
	return !scan->error;
}

/* A row from SQL. */
static void take_values(void *context, sqlite3_value **values)
{
	struct scan *scan = context;
	struct scan_row row;
	row.nulls = 0;
	for (int i = 0; i < scan->columns; i++) {
		row.values[i] = int_of(values[i]);
		row.nulls |= (uint32_t)is_null(values[i]) << i;
	}
	scan->take_row(scan->row_context, &row);
}

static int count_columns(const char *columns)
{
	int count = 1;
	while ((columns = strchr(columns, ',')) != NULL) {
		columns++;
		count++;
	}
	return count;
}

void scan_columns(struct scan *scan, const char *table, const char *columns,
		  void (*take)(void *context, const struct scan_row *row), void *context)
{
	char sql[256];
	int64_t parameter = scan->parameter, from = INT64_MIN;
	if (scan->error)
		return;
	scan->take_row = take;
	scan->row_context = context;
	scan->columns = count_columns(columns);
	if (!scan->pages && scan->watch && scan->watch->own && (scan->pages = malloc(sizeof *scan->pages)) != NULL)
		pages_begin(scan->pages, scan->db);
	if ((scan->pages && pages_each(scan->pages, scan->db, table, columns, take_columns, scan, &from)) ||
	    scan->error)
		return;
	if (scan->columns > SCAN_COLUMNS ||
	    (size_t)snprintf(sql, sizeof sql, "SELECT 1 FROM %s WHERE rowid >= ?1 AND profd_row(%s)", table, columns) >=
		    sizeof sql) {
		scan->error = SQLITE_TOOBIG;
		return;
	}
	scan->parameter = from;
	scan_table(scan, sql, take_values, scan);
	scan->parameter = parameter;
}

/* The fewest bytes of a row with its header. */
#define ROW_LEAST 16

/* The number in the first row and column; 0: there is none. The scan of the table itself reports the error. */
static int64_t number(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *statement = NULL;
	int64_t found = 0;
	if (!sqlite3_prepare_v2(db, sql, -1, &statement, NULL) && sqlite3_step(statement) == SQLITE_ROW)
		found = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return found > 0 ? found : 0;
}

size_t scan_table_rows(struct scan *scan, const char *table)
{
	char sql[80];
	if (scan->error)
		return 0;
	snprintf(sql, sizeof sql, "SELECT max(rowid) FROM %s", table);
	int64_t rows = number(scan->db, sql);
	int64_t most = number(scan->db, "PRAGMA page_count") * number(scan->db, "PRAGMA page_size") / ROW_LEAST;
	return (size_t)(rows < most ? rows : most);
}

void scan_no_memory(struct scan *scan)
{
	if (!scan->error)
		scan->error = SQLITE_NOMEM;
}
