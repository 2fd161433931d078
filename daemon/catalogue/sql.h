/* sql.h - helpers for statements of catalogue.db. On the catalogue's thread, or before it exists. */
#ifndef PROFD_DAEMON_CATALOGUE_SQL_H
#define PROFD_DAEMON_CATALOGUE_SQL_H

#include "proto/base/facts.h"

#include <sqlite3.h>

struct catalogue;

/* Logs the last error; -ENOSPC where the disk is full, else -EIO. */
int catalogue_failed(struct catalogue *catalogue);
/* Runs statements without rows: 0 or a negative errno. */
int catalogue_run(struct catalogue *catalogue, const char *sql);
/* NULL where it cannot be prepared (logged). */
sqlite3_stmt *catalogue_prepare(struct catalogue *catalogue, const char *sql);
/* Steps a statement without rows and finalizes it: 0 or a negative errno. NULL is an error. */
int catalogue_finish(struct catalogue *catalogue, sqlite3_stmt *statement);
/* The first column of the first row, 0 where there is none. */
uint64_t catalogue_number(struct catalogue *catalogue, const char *sql);
/* All rows of a query in one array, to be freed; `fill` turns each row into the array's next `row_bytes`. *ret_error:
 * 0, or a negative errno and NULL is returned. */
void *catalogue_collect(struct catalogue *catalogue, const char *sql, size_t row_bytes,
			void (*fill)(sqlite3_stmt *s, void *row), size_t *ret_count, int *ret_error);
/* Deletes the rows of a table beyond `keep`: the oldest of the user who has most. `table` and `owner` (a column) are
 * our own words, not a client's. */
void catalogue_prune(struct catalogue *catalogue, const char *table, const char *owner, uint64_t keep);
/* So many rows are written between two calls of catalogue_prune. */
#define CATALOGUE_PRUNE_EVERY 256

/* An empty text, no rank (negative) and the number 0 become NULL. */
void catalogue_bind_text(sqlite3_stmt *statement, int at, const char *text);
void catalogue_bind_rank(sqlite3_stmt *statement, int at, int32_t rank);
void catalogue_bind_known(sqlite3_stmt *statement, int at, uint64_t value);
void catalogue_column_text(sqlite3_stmt *s, int at, char *to, size_t to_bytes);
uint64_t catalogue_column_number(sqlite3_stmt *s, int at);
int32_t catalogue_column_rank(sqlite3_stmt *s, int at);
/* FAILED and NONE if the word is not known, or NULL. */
enum capture_status catalogue_status_from_word(const char *word);
enum cancel_reason catalogue_reason_from_word(const char *word);

#endif
