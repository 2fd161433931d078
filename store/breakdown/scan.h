/* scan.h - reads rows of a capture file for the breakdown: watched, and up to the first error. */
#ifndef PROFD_STORE_BREAKDOWN_SCAN_H
#define PROFD_STORE_BREAKDOWN_SCAN_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct breakdown_watch;
struct pages;

#define SCAN_COLUMNS 16
/* The columns of a row. */
struct scan_row {
	int64_t values[SCAN_COLUMNS]; /* NULL is 0 */
	uint32_t nulls;		      /* bits: which are NULL */
};

struct scan {
	sqlite3 *db;
	const struct breakdown_watch *watch; /* asked at every row; may be NULL */
	int error;			     /* SQLite's; after the first one nothing is read */
	/* For scan_table(). */
	int64_t parameter;     /* ?1, where the SQL has one; set by the caller */
	struct scan **running; /* where profd_row() finds the scan; owned by the connection */
	void (*take)(void *context, sqlite3_value **row);
	void *context;
	/* For scan_columns(). */
	struct pages *pages; /* NULL: not asked for yet, or SQL reads all */
	void (*take_row)(void *context, const struct scan_row *row);
	void *row_context;
	int columns;
};

/* Call it before the first scan_table(). The scan must not move until scan_end(), which keeps SQLite's error. */
void scan_begin(struct scan *scan, sqlite3 *db, const struct breakdown_watch *watch);
void scan_end(struct scan *scan);
/* Calls `take` for each row; stops at the first error. */
void scan_each(struct scan *scan, const char *sql, void (*take)(void *context, sqlite3_stmt *row), void *context);
/* The same for tables with many rows, in two thirds of the time: SQLite calls back for each row, instead of being
 * called for each row and each column. `sql` has profd_row(COLUMNS) as its WHERE. If there are conditions, which have
 * to be checked first, it selects count(profd_row(COLUMNS)) instead. The table's last column should come first: then
 * SQLite looks only once where a row's columns lie. */
void scan_table(struct scan *scan, const char *sql, void (*take)(void *context, sqlite3_value **row), void *context);
/* The same for all rows of a table, in the order of their rowids. `columns` are names of columns of integers, with commas
 * and blanks between them. If the file is the program's own (watch), pages.h reads it, in a quarter of the time. */
void scan_columns(struct scan *scan, const char *table, const char *columns,
		  void (*take)(void *context, const struct scan_row *row), void *context);
/* About how many rows the table has: its highest number, unless the file is too small for so many. */
size_t scan_table_rows(struct scan *scan, const char *table);
/* Does the file have the table, and this column of it (NULL: any)? Files of earlier releases lack tables and columns
 * that came later. */
bool scan_has(sqlite3 *db, const char *table, const char *column);
/* Sets the error: there is no memory. */
void scan_no_memory(struct scan *scan);

static inline int64_t row_int(sqlite3_stmt *row, int column)
{
	return sqlite3_column_int64(row, column);
}

static inline int64_t int_of(sqlite3_value *value)
{
	return sqlite3_value_int64(value);
}

static inline bool is_null(sqlite3_value *value)
{
	return sqlite3_value_type(value) == SQLITE_NULL;
}

/* 73 years on either side of a capture. Times of a hostile file are cut to this, so that a few of them can be added. */
#define FARTHEST (INT64_C(1) << 61)

static inline int64_t bounded(int64_t time)
{
	return time < -FARTHEST ? -FARTHEST : time > FARTHEST ? FARTHEST : time;
}

static inline int64_t time_of(sqlite3_value *value)
{
	return bounded(sqlite3_value_int64(value));
}

static inline int64_t int_at(const struct scan_row *row, unsigned column)
{
	return row->values[column];
}

static inline int64_t time_at(const struct scan_row *row, unsigned column)
{
	return bounded(row->values[column]);
}

static inline bool null_at(const struct scan_row *row, unsigned column)
{
	return row->nulls >> column & 1;
}

/* The end of a span that began at `start`. */
static inline int64_t end_of(int64_t start, int64_t duration)
{
	int64_t end;
	if (duration < 0 || __builtin_add_overflow(start, duration, &end))
		return start;
	return end > FARTHEST ? FARTHEST : end;
}

#endif
