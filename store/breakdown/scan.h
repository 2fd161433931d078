/* scan.h - rows of a capture file, as the breakdown's readers take them: watched, and up to the first error. */
#ifndef PROFD_STORE_BREAKDOWN_SCAN_H
#define PROFD_STORE_BREAKDOWN_SCAN_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct breakdown_watch;

struct scan {
	sqlite3 *db;
	const struct breakdown_watch *watch; /* asked at every row; may be NULL */
	int error;			     /* SQLite's; from the first one on nothing is read */
	/* Of scan_table(). */
	int64_t parameter;     /* ?1, where its SQL has one; the caller's */
	struct scan **running; /* what profd_row() is for; the connection's */
	void (*take)(void *context, sqlite3_value **row);
	void *context;
};

/* Before the first scan_table(). The scan may not move until scan_end(), which leaves SQLite's error as it is. */
void scan_begin(struct scan *scan, sqlite3 *db, const struct breakdown_watch *watch);
void scan_end(struct scan *scan);
/* Calls `take` for each row; stops at the first error. */
void scan_each(struct scan *scan, const char *sql, void (*take)(void *context, sqlite3_stmt *row), void *context);
/* The same for tables of many rows, in two thirds of the time: SQLite calls, instead of being called for each row and each column. `sql`
 * has profd_row(COLUMNS) for its WHERE; where there are conditions, which must be looked at before, it selects count(profd_row(COLUMNS)). The
 * column that stands last in the table is best the first one: SQLite then looks once where the columns of a row lie. */
void scan_table(struct scan *scan, const char *sql, void (*take)(void *context, sqlite3_value **row), void *context);
/* About how many rows the table has: as many as its last number, unless the file is too small for so many. */
size_t scan_table_rows(struct scan *scan, const char *table);
/* Is the table in the file, with this column (NULL: with any)? Files of earlier releases lack those that came later. */
bool scan_has(sqlite3 *db, const char *table, const char *column);
/* There is no memory. */
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

/* 73 years on either side of a capture. Times of a file that is not what it says are cut to that: a few of them can be added. */
#define FARTHEST (INT64_C(1) << 61)

static inline int64_t bounded(int64_t time)
{
	return time < -FARTHEST ? -FARTHEST : time > FARTHEST ? FARTHEST : time;
}

static inline int64_t time_of(sqlite3_value *value)
{
	return bounded(sqlite3_value_int64(value));
}

/* The end of what began at `start`. */
static inline int64_t end_of(int64_t start, int64_t duration)
{
	int64_t end;
	if (duration < 0 || __builtin_add_overflow(start, duration, &end))
		return start;
	return end > FARTHEST ? FARTHEST : end;
}

#endif
