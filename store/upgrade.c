/* upgrade.c - see upgrade.h. A daemon of an older release left the file, and its capture is continued. No locks. */
#include "upgrade.h"
#include "file.h"
#include "proto/columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists all tables, or views, of the file first: so the callback may drop them. */
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

/* Drops a table in which an older release put nothing. In this release a view or another table may have the name. */
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

static void add_column(struct store *store, const char *table, const char *column, const char *type)
{
	char *sql = sqlite3_mprintf("ALTER TABLE main.%s ADD COLUMN %s %s", table, column, type);
	store_run(store, sql ? sql : "");
	sqlite3_free(sql);
}

/* Adds the members that records of a kind have got since, if its table still exists. `wanted`: the table as this
 * release makes it. */
static void add_columns(struct store *store, unsigned kind)
{
	const char *statement = event_create_table(kind);
	if (!statement)
		return;
	char *sql = sqlite3_mprintf("DROP TABLE IF EXISTS temp.wanted; CREATE TEMP TABLE wanted %s",
				    strchr(statement, '('));
	store_run(store, sql ? sql : "");
	sqlite3_free(sql);
	sqlite3_stmt *row = store_prepare(
		store,
		"SELECT name, type FROM pragma_table_info('wanted', 'temp') WHERE EXISTS (SELECT 1 FROM "
		"pragma_table_info(?1, 'main')) AND name NOT IN (SELECT name FROM pragma_table_info(?1, 'main'))");
	struct {
		char name[64], type[16];
	} missing[64];
	size_t count = 0;
	if (row)
		sqlite3_bind_text(row, 1, event_table(kind), -1, SQLITE_STATIC);
	while (row && count < sizeof missing / sizeof *missing && sqlite3_step(row) == SQLITE_ROW) {
		snprintf(missing[count].name, sizeof missing->name, "%s", (const char *)sqlite3_column_text(row, 0));
		snprintf(missing[count++].type, sizeof missing->type, "%s", (const char *)sqlite3_column_text(row, 1));
	}
	sqlite3_finalize(row);
	for (size_t i = 0; i < count; i++)
		add_column(store, event_table(kind), missing[i].name, missing[i].type);
	store_run(store, "DROP TABLE temp.wanted");
}

int store_upgrade(struct store *store)
{
	store_begin(store);
	each(store, "view", drop_view);
	each(store, "table", drop_empty);
	for (unsigned kind = 0; kind < EVENT_KIND_COUNT; kind++)
		add_columns(store, kind);
	store_make_tables(store);
	if (store_commit(store))
		store_rollback(store);
	return store->error;
}
