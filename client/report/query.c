/* query.c - what the tables' queries share. */
#include "report.h"

#include "../failure.h"
#include "../text.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

static void damaged(const struct reader *reader)
{
	exit(fail(EXIT_FAILED, "the capture file cannot be read: %s; it may be damaged, record another",
		  sqlite3_errmsg(reader->db)));
}

sqlite3_stmt *report_prepare(const struct reader *reader, const char *sql)
{
	sqlite3_stmt *statement = NULL;

	if (sqlite3_prepare_v2(reader->db, sql, -1, &statement, NULL) != SQLITE_OK)
		damaged(reader);
	return statement;
}

bool report_next(const struct reader *reader, sqlite3_stmt *statement)
{
	int result = sqlite3_step(statement);

	if (result == SQLITE_ROW)
		return true;
	if (result != SQLITE_DONE)
		damaged(reader);
	sqlite3_finalize(statement);
	return false;
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

void report_whole(struct table *table, const cJSON *summary, const char *key)
{
	const cJSON *total = cJSON_GetObjectItemCaseSensitive(summary, key);

	if (cJSON_IsNumber(total) && total->valuedouble > 0 && total->valuedouble < 1e15)
		table_set_whole(table, (size_t)total->valuedouble);
}

bool report_ran(const struct reader *reader, const char *collector)
{
	sqlite3_stmt *statement = report_prepare(reader, "SELECT ran FROM collectors WHERE collector = ?1");
	bool ran = false;

	sqlite3_bind_text(statement, 1, collector, -1, SQLITE_STATIC);
	while (report_next(reader, statement))
		ran = sqlite3_column_int(statement, 0) != 0;
	return ran;
}

char *report_sentence(const struct reader *reader, const char *collector)
{
	sqlite3_stmt *statement = report_prepare(reader, "SELECT sentence FROM collectors WHERE collector = ?1");
	char *sentence = NULL;

	sqlite3_bind_text(statement, 1, collector, -1, SQLITE_STATIC);
	while (report_next(reader, statement)) {
		const char *text = (const char *)sqlite3_column_text(statement, 0);

		free(sentence);
		sentence = need(strdup(text ? text : ""));
	}
	return sentence ? sentence : need(strdup(""));
}

int64_t report_step(const struct reader *reader, int64_t wanted)
{
	sqlite3_stmt *statement = report_prepare(
		reader, "SELECT step FROM steps WHERE step = ?1 OR number = ?1 ORDER BY step = ?1 DESC LIMIT 1");
	int64_t step = 0;

	sqlite3_bind_int64(statement, 1, wanted);
	while (report_next(reader, statement))
		step = sqlite3_column_int64(statement, 0);
	return step;
}

int64_t report_step_count(const struct reader *reader)
{
	return reader_count(reader, "SELECT count(*) FROM steps", 0);
}
