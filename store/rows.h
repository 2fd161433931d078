/* rows.h - puts many rows of integers into a table, some thousand at a time, through a virtual table (as tables.h
 * does with events). No locks. */
#ifndef PROFD_STORE_ROWS_H
#define PROFD_STORE_ROWS_H

#include "file.h"

#define ROWS_NULL INT64_MIN

struct rows {
	struct store *store;
	sqlite3_stmt *insert;
	unsigned columns;
	size_t count;
	int64_t *values; /* [count][columns]; owned */
};

/* Writes the first `columns` columns of the table. `rows` must not move until rows_end(). 0 or a negative errno with
 * store->sentence. */
int rows_begin(struct rows *rows, struct store *store, const char *table, unsigned columns);
/* ROWS_NULL is NULL. Errors stay in the store. */
void rows_add(struct rows *rows, const int64_t *values);
/* Writes the rest and frees everything. */
int rows_end(struct rows *rows);

#endif
