/* rows.h - many rows of integers into one table, as fast as the rows of a batch enter (store.h): through a virtual table over
 * some thousand of them. One thread at a time, no locks. */
#ifndef PROFD_STORE_ROWS_H
#define PROFD_STORE_ROWS_H

#include "file.h"

#define ROWS_COLUMNS 14
#define ROWS_NULL INT64_MIN

struct rows {
	struct store *store;
	sqlite3_stmt *insert;
	unsigned columns;
	size_t count;
	int64_t *values; /* [count][columns]; owned */
};

/* `table`: its name, of which the first `columns` columns are written. The address stays as it is until rows_end. 0 or a
 * negative errno with store->sentence. */
int rows_begin(struct rows *rows, struct store *store, const char *table, unsigned columns);
/* ROWS_NULL is NULL. Errors stay in the store. */
void rows_add(struct rows *rows, const int64_t *values);
/* Writes what is left and frees all. */
int rows_end(struct rows *rows);

#endif
