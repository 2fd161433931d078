/* scan.h - hands the rows of a query to a function, as the arguments of an SQL aggregate. This takes two thirds of the
 * time that stepping through the rows takes. One thread a connection. */
#ifndef PROFD_CLIENT_EXPORT_SCAN_H
#define PROFD_CLIENT_EXPORT_SCAN_H

#include "client/reader/reader.h"

#include <sqlite3.h>

/* One row: the arguments of profd_row() in the query. Other statements may be run on the same connection. What is not 0
 * ends the scan. */
typedef int (*scan_row)(void *user, sqlite3_value **row);

/* `sql` is "SELECT profd_row(COLUMN, ...) FROM TABLE WHERE rowid BETWEEN ? AND ?". 0, what a row gave, or -EIO. */
int scan_rows(const struct reader *r, const char *sql, int64_t first, int64_t last, scan_row row, void *user);

#endif
