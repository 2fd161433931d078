/* pages.h - reads tables of integers from the pages of a capture file. SQLite's interpreter takes four times as long for
 * a row, which was half of the verdict's time. It reads only a file that this program writes itself, in a transaction. It
 * leaves everything that it does not expect to SQL. */
#ifndef PROFD_STORE_BREAKDOWN_PAGES_H
#define PROFD_STORE_BREAKDOWN_PAGES_H

#include "scan.h"

struct pages {
	sqlite3_file *file;  /* NULL: SQL reads all */
	size_t page, usable; /* bytes of a page, and those of them that SQLite uses */
	uint64_t count;	     /* pages of the file */
};

/* Writes what the transaction has changed so far to the file. A rollback still takes it back. */
void pages_begin(struct pages *pages, sqlite3 *db);

/* Calls `take` for each row of the table, in the order of rowids, until it returns false. `columns` are names with commas
 * and blanks between them; "rowid" may be one. False: rows from *ret_next on were not taken (INT64_MIN: no row was). */
bool pages_each(const struct pages *pages, sqlite3 *db, const char *table, const char *columns,
		bool (*take)(void *context, const struct scan_row *row), void *context, int64_t *ret_next);

#endif
