/* upgrade.c - see upgrade.h. A daemon of an older release left the file, and its capture is gone on with. No locks. */
#include "upgrade.h"
#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls back with each table, or view, of the file; what the callback drops is not looked at any more. */
static void each(struct store *store, const char *type, void (*callback)(struct store *store, const char *name))
{
	char **names = NULL;
	size_t count = 0;
	sqlite3_stmt *statement =
		store_prepare(store, "SELECT name FROM sqlite_master WHERE type = ? AND name NOT LIKE 'sqlite%'");
	if (statement)
		sqlite3_bind_text(statement, 1, type, -1, SQLITE_STATIC);
	while (statement && sqlite3_step(statement) == SQLITE_ROW) {
		char **grown = realloc(names, (count + 1) * sizeof *grown);
		if (!grown)
			break;
		names = grown;
		names[count] = strdup((const char *)sqlite3_column_text(statement, 0));
		if (names[count])
			count++;
	}
	sqlite3_finalize(statement);
	for (size_t i = 0; i < count; i++) {
		callback(store, names[i]);
		free(names[i]);
	}
	free(names);
}

static void drop_view(struct store *store, const char *name)
{
	char *sql = sqlite3_mprintf("DROP VIEW \"%w\"", name);
	store_run(store, sql ? sql : "");
	sqlite3_free(sql);
}

/* An older release's tables for what it could not record yet: a view or another table has the name now. */
static void drop_empty(struct store *store, const char *name)
{
	char *sql = sqlite3_mprintf("SELECT 1 FROM \"%w\" LIMIT 1", name);
	sqlite3_stmt *statement = sql ? store_prepare(store, sql) : NULL;
	bool empty = statement && sqlite3_step(statement) == SQLITE_DONE;
	sqlite3_finalize(statement);
	sqlite3_free(sql);
	sql = empty ? sqlite3_mprintf("DROP TABLE \"%w\"", name) : NULL;
	if (sql)
		store_run(store, sql);
	sqlite3_free(sql);
}

/* Members that records have got since, of tables that are not empty. */
static void add_columns(struct store *store)
{
	static const char *const columns[] = {"refused", "known_from", "missing_from"};
	for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
		char sql[256];
		snprintf(sql, sizeof sql,
			 "SELECT 1 FROM pragma_table_info('sessions') WHERE name = 'options' AND NOT EXISTS (SELECT 1 "
			 "FROM pragma_table_info('sessions') WHERE name = '%s')",
			 columns[i]);
		sqlite3_stmt *statement = store_prepare(store, sql);
		bool missing = statement && sqlite3_step(statement) == SQLITE_ROW;
		sqlite3_finalize(statement);
		snprintf(sql, sizeof sql, "ALTER TABLE sessions ADD COLUMN %s INTEGER", columns[i]);
		if (missing)
			store_run(store, sql);
	}
}

int store_upgrade(struct store *store)
{
	store_begin(store);
	each(store, "view", drop_view);
	each(store, "table", drop_empty);
	add_columns(store);
	store_make_tables(store);
	if (store_commit(store))
		store_rollback(store);
	return store->error;
}
