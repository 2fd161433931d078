/* rows.c - see rows.h. */
#include "rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 4096u

struct rows_table {
	sqlite3_vtab table;
	const struct rows *rows;
};
struct rows_cursor {
	sqlite3_vtab_cursor cursor;
	size_t at;
};

static const struct rows *rows_of(sqlite3_vtab_cursor *cursor)
{
	return ((struct rows_table *)cursor->pVtab)->rows;
}

static int connect_rows(sqlite3 *db, void *rows, int argc, const char *const *argv, sqlite3_vtab **ret,
			char **ret_error)
{
	(void)argc, (void)argv, (void)ret_error;
	int error = sqlite3_declare_vtab(db, "CREATE TABLE x(c0,c1,c2,c3,c4,c5,c6,c7,c8,c9,c10,c11,c12,c13)");
	if (error)
		return error;
	struct rows_table *table = sqlite3_malloc(sizeof *table);
	if (!table)
		return SQLITE_NOMEM;
	*table = (struct rows_table){.rows = rows};
	*ret = &table->table;
	return SQLITE_OK;
}

static int disconnect_rows(sqlite3_vtab *table)
{
	sqlite3_free(table);
	return SQLITE_OK;
}

static int plan_rows(sqlite3_vtab *table, sqlite3_index_info *info)
{
	(void)table;
	info->estimatedCost = ROWS_MAX;
	return SQLITE_OK;
}

static int open_rows(sqlite3_vtab *table, sqlite3_vtab_cursor **ret)
{
	(void)table;
	struct rows_cursor *cursor = sqlite3_malloc(sizeof *cursor);
	if (!cursor)
		return SQLITE_NOMEM;
	memset(cursor, 0, sizeof *cursor);
	*ret = &cursor->cursor;
	return SQLITE_OK;
}

static int close_rows(sqlite3_vtab_cursor *cursor)
{
	sqlite3_free(cursor);
	return SQLITE_OK;
}

static int first_row(sqlite3_vtab_cursor *cursor, int index, const char *text, int argc, sqlite3_value **argv)
{
	(void)index, (void)text, (void)argc, (void)argv;
	((struct rows_cursor *)cursor)->at = 0;
	return SQLITE_OK;
}

static int next_row(sqlite3_vtab_cursor *cursor)
{
	((struct rows_cursor *)cursor)->at++;
	return SQLITE_OK;
}

static int no_more_rows(sqlite3_vtab_cursor *cursor)
{
	return ((struct rows_cursor *)cursor)->at >= rows_of(cursor)->count;
}

static int column_of_row(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column)
{
	const struct rows *rows = rows_of(cursor);
	int64_t value = (unsigned)column < rows->columns
				? rows->values[((struct rows_cursor *)cursor)->at * rows->columns + (unsigned)column]
				: ROWS_NULL;
	if (value != ROWS_NULL)
		sqlite3_result_int64(context, value);
	return SQLITE_OK;
}

static int number_of_row(sqlite3_vtab_cursor *cursor, sqlite3_int64 *ret)
{
	*ret = (sqlite3_int64)((struct rows_cursor *)cursor)->at;
	return SQLITE_OK;
}

static const sqlite3_module rows_module = {
	.xConnect = connect_rows,
	.xBestIndex = plan_rows,
	.xDisconnect = disconnect_rows,
	.xOpen = open_rows,
	.xClose = close_rows,
	.xFilter = first_row,
	.xNext = next_row,
	.xEof = no_more_rows,
	.xColumn = column_of_row,
	.xRowid = number_of_row,
};

int rows_begin(struct rows *rows, struct store *store, const char *table, unsigned columns)
{
	char name[64], sql[256];
	memset(rows, 0, sizeof *rows);
	rows->store = store;
	rows->columns = columns;
	if (store->error)
		return store->error;
	rows->values = malloc((size_t)ROWS_MAX * columns * sizeof *rows->values);
	snprintf(name, sizeof name, "rows_%s", table);
	if (!rows->values || sqlite3_create_module(store->db, name, &rows_module, rows))
		return store_fail(store, "writing");
	int n = snprintf(sql, sizeof sql, "INSERT OR IGNORE INTO main.%s SELECT c0", table);
	for (unsigned i = 1; i < columns; i++)
		n += snprintf(sql + n, sizeof sql - (size_t)n, ", c%u", i);
	snprintf(sql + n, sizeof sql - (size_t)n, " FROM %s", name);
	rows->insert = store_prepare(store, sql);
	return store->error;
}

static void flush(struct rows *rows)
{
	if (rows->count && !store_over(rows->store)) {
		if (sqlite3_step(rows->insert) != SQLITE_DONE)
			store_fail(rows->store, "writing");
		sqlite3_reset(rows->insert);
	}
	rows->count = 0;
}

void rows_add(struct rows *rows, const int64_t *values)
{
	if (rows->store->error)
		return;
	memcpy(rows->values + rows->count * rows->columns, values, rows->columns * sizeof *values);
	if (++rows->count == ROWS_MAX)
		flush(rows);
}

int rows_end(struct rows *rows)
{
	flush(rows);
	sqlite3_finalize(rows->insert);
	free(rows->values);
	rows->insert = NULL;
	rows->values = NULL;
	return rows->store->error;
}
