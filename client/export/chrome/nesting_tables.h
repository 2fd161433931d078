/* nesting_tables.h - where the slices of each table come from: its track, and which of its rows are slices. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_NESTING_TABLES_H
#define PROFD_CLIENT_EXPORT_CHROME_NESTING_TABLES_H

#include "nesting.h"

/* SQL expressions of a row; table NULL: none of the file. */
struct nesting_source {
	const char *table, *track, *taken;
};
extern const struct nesting_source nesting_sources[NESTING_TABLES];

/* Has a file of this schema the table? */
bool nesting_has_table(int table, int64_t schema);

/* Rows of a table that are to be scanned: rowids first..last, `count` of them; last < first where there are none. */
struct nesting_rows {
	int64_t first, last, count;
};
/* 0, or -EFBIG where there are more than 2^31. */
int nesting_rows(const struct reader *r, const char *table, struct nesting_rows *ret_rows);

#endif
