/* sql.c - see sql.h. Thread: the catalogue's. No locks. */
#include "sql.h"
#include "catalogue.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int catalogue_failed(struct catalogue *catalogue)
{
	/* A failed write is tried again and again; the log has it once a minute, not each time. */
	int code = sqlite3_errcode(catalogue->db);
	uint64_t now = clock_monotonic();
	if (code != catalogue->failed_code || now > catalogue->failed_at + 60000000000u) {
		log_line("catalogue: %s", sqlite3_errmsg(catalogue->db));
		catalogue->failed_code = code;
		catalogue->failed_at = now;
	}
	return code == SQLITE_FULL ? -ENOSPC : -EIO;
}

int catalogue_run(struct catalogue *catalogue, const char *sql)
{
	return sqlite3_exec(catalogue->db, sql, NULL, NULL, NULL) ? catalogue_failed(catalogue) : 0;
}

sqlite3_stmt *catalogue_prepare(struct catalogue *catalogue, const char *sql)
{
	sqlite3_stmt *statement = NULL;
	if (sqlite3_prepare_v2(catalogue->db, sql, -1, &statement, NULL))
		catalogue_failed(catalogue);
	return statement;
}

int catalogue_finish(struct catalogue *catalogue, sqlite3_stmt *statement)
{
	if (!statement)
		return -EIO;
	int code = sqlite3_step(statement), error = 0;
	if (code != SQLITE_DONE && code != SQLITE_ROW)
		error = catalogue_failed(catalogue);
	sqlite3_finalize(statement);
	return error;
}

uint64_t catalogue_number(struct catalogue *catalogue, const char *sql)
{
	sqlite3_stmt *statement = catalogue_prepare(catalogue, sql);
	uint64_t value =
		statement && sqlite3_step(statement) == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(statement, 0) : 0;
	sqlite3_finalize(statement);
	return value;
}

void *catalogue_collect(struct catalogue *catalogue, const char *sql, size_t row_bytes,
			void (*fill)(sqlite3_stmt *s, void *row), size_t *ret_count, int *ret_error)
{
	char *rows = NULL;
	size_t count = 0, capacity = 0;
	int code = SQLITE_ERROR;
	sqlite3_stmt *s = catalogue_prepare(catalogue, sql);
	while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
		char *grown = array_grow(rows, count, &capacity, row_bytes);
		if (!grown)
			break;
		rows = grown;
		fill(s, rows + count++ * row_bytes);
	}
	*ret_error = !s ? -EIO : code == SQLITE_DONE ? 0 : code == SQLITE_ROW ? -ENOMEM : catalogue_failed(catalogue);
	sqlite3_finalize(s);
	if (*ret_error) {
		free(rows);
		return NULL;
	}
	*ret_count = count;
	return rows;
}

void catalogue_prune(struct catalogue *catalogue, const char *table, const char *owner, uint64_t keep)
{
	char sql[400];
	snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
	uint64_t rows = catalogue_number(catalogue, sql);
	if (rows <= keep)
		return;
	snprintf(sql, sizeof sql,
		 "DELETE FROM %s WHERE id IN (SELECT id FROM %s WHERE %s = (SELECT %s FROM %s GROUP BY %s ORDER BY "
		 "count(*) DESC LIMIT 1) ORDER BY id LIMIT %" PRIu64 ")",
		 table, table, owner, owner, table, owner, rows - keep);
	catalogue_run(catalogue, sql);
}

void catalogue_bind_text(sqlite3_stmt *statement, int at, const char *text)
{
	if (*text)
		sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

void catalogue_bind_rank(sqlite3_stmt *statement, int at, int32_t rank)
{
	if (rank >= 0)
		sqlite3_bind_int(statement, at, rank);
}

void catalogue_bind_known(sqlite3_stmt *statement, int at, uint64_t value)
{
	if (value)
		sqlite3_bind_int64(statement, at, (int64_t)value);
}

uint64_t catalogue_column_number(sqlite3_stmt *s, int at)
{
	return (uint64_t)sqlite3_column_int64(s, at);
}

void catalogue_column_text(sqlite3_stmt *s, int at, char *to, size_t to_bytes)
{
	const char *text = (const char *)sqlite3_column_text(s, at);
	text_copy(to, to_bytes, text ? text : "");
}

int32_t catalogue_column_rank(sqlite3_stmt *s, int at)
{
	return sqlite3_column_type(s, at) == SQLITE_NULL ? -1 : sqlite3_column_int(s, at);
}

enum capture_status catalogue_status_from_word(const char *word)
{
	for (unsigned status = 0; status < CAPTURE_STATUS_COUNT; status++)
		if (word && strcmp(capture_status_word(status), word) == 0)
			return (enum capture_status)status;
	return CAPTURE_FAILED;
}

enum cancel_reason catalogue_reason_from_word(const char *word)
{
	for (unsigned reason = 0; word && cancel_reason_word(reason); reason++)
		if (strcmp(cancel_reason_word(reason), word) == 0)
			return (enum cancel_reason)reason;
	return REASON_NONE;
}
