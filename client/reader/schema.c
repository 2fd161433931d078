/* schema.c - see schema.h. What profd makes stands in proto/schema.def and proto/events.def. No state. */
#include "schema.h"

#include "proto/columns.h"
#include "proto/events.h"
#include "proto/version.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Beside the tables of event kinds (event_create_table). */
static const char *const statements[] = {
#define CAPTURE_SQL(statement) statement,
#include "proto/schema.def"
};

/* The next character of a statement, without the quotes that may stand around names. */
static char next(const char **at)
{
	while (**at == '"')
		++*at;
	return **at ? *(*at)++ : '\0';
}

/* Is `text` this statement? With `shorter` it may also be the table with only the first of its columns. */
static bool is_statement(const char *text, const char *statement, bool shorter)
{
	for (;;) {
		char mine = next(&statement), other = next(&text);

		if (mine != other)
			return shorter && mine == ',' && other == ')' && !next(&text);
		if (!mine)
			return true;
	}
}

/* Does a statement make the table, or view, of this name? */
static bool makes(const char *statement, const char *type, const char *name)
{
	size_t n = strlen(name);

	statement += strlen("CREATE ");
	if (strncasecmp(statement, type, strlen(type)) != 0)
		return false;
	statement += strlen(type) + 1;
	return strncasecmp(statement, name, n) == 0 && statement[n] == ' ';
}

/* A table with nothing but columns. Whatever computes something has a second bracket. */
static bool is_plain(const char *sql)
{
	const char *bracket = strchr(sql, '(');

	return strncmp(sql, "CREATE TABLE ", 13) == 0 && bracket && !strchr(bracket + 1, '(');
}

static bool is_same(const char *statement, const char *type, const char *name, const char *sql)
{
	return makes(statement, type, name) && is_statement(sql, statement, strcmp(type, "table") == 0);
}

static bool is_ours(const char *type, const char *name, const char *sql, int64_t version)
{
	bool table = strcmp(type, "table") == 0;

	/* SQLite's own index for a table's key has no statement. */
	if (strcmp(type, "index") == 0)
		return !sql;
	if (!sql || (!table && strcmp(type, "view") != 0))
		return false;
	for (unsigned kind = 0; kind < EVENT_KIND_COUNT; kind++) {
		const char *statement = event_create_table(kind);

		if (statement && is_same(statement, type, name, sql))
			return true;
	}
	for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
		if (is_same(statements[i], type, name, sql))
			return true;
	return table && version < CAPTURE_SCHEMA_VERSION && is_plain(sql);
}

int schema_check(sqlite3 *db, int64_t version, char *why, size_t why_bytes)
{
	sqlite3_stmt *row;
	int error = 0, result = SQLITE_ERROR;

	if (sqlite3_prepare_v2(db, "SELECT type, name, sql FROM sqlite_master", -1, &row, NULL) != SQLITE_OK)
		return -EIO;
	while (!error && (result = sqlite3_step(row)) == SQLITE_ROW) {
		const char *type = (const char *)sqlite3_column_text(row, 0);
		const char *name = (const char *)sqlite3_column_text(row, 1);
		const char *sql = (const char *)sqlite3_column_text(row, 2);

		if (type && name && is_ours(type, name, sql, version))
			continue;
		snprintf(
			why, why_bytes,
			"the %.16s \"%.64s\" in the file is none that profd makes: this is no capture, or one that was "
			"changed; ask for the capture as profd wrote it",
			type ? type : "part", name ? name : "?");
		error = -EINVAL;
	}
	sqlite3_finalize(row);
	return error ? error : result == SQLITE_DONE ? 0 : -EIO;
}
