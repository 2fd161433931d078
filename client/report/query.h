/* query.h - what the tables' queries share: how they are run, and common parts of them. */
#ifndef PROFD_CLIENT_REPORT_QUERY_H
#define PROFD_CLIENT_REPORT_QUERY_H

#include "client/reader/reader.h"
#include "client/ui/table.h"

#include "store/breakdown/scan.h"

struct report_options;

/* For a query's WHERE, to show one step: parameter 1 is report_options.step. */
#define REPORT_STEP " (?1 = 0 OR step = ?1) "
/* Sums over rows. CUPTI has no times for some operations: these count in the calls, but not in the total. */
#define REPORT_TIMED_TOTAL "CASE WHEN count(\"max\") THEN sum(total) END"
#define REPORT_TIMED_CALLS "nullif(sum(CASE WHEN \"max\" IS NOT NULL THEN calls END), 0)"
/* ns that the devices worked: all operations, as torch.profiler's "Self CUDA time total" counts them. */
#define REPORT_DEVICE_TIME                                                                                             \
	"(SELECT sum(total) FROM (SELECT step, total FROM kernel_totals UNION ALL SELECT step, total FROM "            \
	"copy_totals UNION ALL SELECT step, total FROM set_totals UNION ALL SELECT step, total FROM graph_totals) "    \
	"WHERE" REPORT_STEP ")"

/* Says what is wrong with the file, and ends the program. */
_Noreturn void report_damaged(const struct reader *reader);
/* Prepares a statement. If that fails, the program ends with a sentence: the schema was checked when the file was
 * opened, so the file is damaged. */
sqlite3_stmt *report_prepare(const struct reader *reader, const char *sql);
/* sqlite3_step: true while there are rows; ends the program as above on an error; finalizes at the end. */
bool report_next(const struct reader *reader, sqlite3_stmt *statement);
/* Calls `take` for each row, as scan_table() does, for which `sql` is written. ?1 is the step, or 0. For tables of
 * many rows. On an error the program ends as above. */
void report_scan(const struct reader *reader, const char *sql, int64_t step,
		 void (*take)(void *context, sqlite3_value **row), void *context);
/* A cell from a result column: integer, text, or empty for NULL. */
void report_cell(struct table *table, size_t column, sqlite3_stmt *statement, int from);

#define REPORT_LINE_BYTES 512
/* A line of Python as people read it, "train.py:88", from the result columns of its file and number; "train.py" if
 * the line is not known. False: there is none, and `to` stays as it was. */
bool report_line(char to[REPORT_LINE_BYTES], sqlite3_stmt *row, int file, int number);

/* One of torch.profiler's sort keys (with device_ where it may say cuda_), and its meaning in a table's SQL. */
struct report_key {
	const char *key, *sql;
};
/* The SQL of a key. If the table has no such key, or `key` is NULL: that of the first of `keys`. */
const char *report_order(const struct report_key *keys, size_t count, const char *key);
/* Does a key sort by times of the device? */
bool report_key_is_device(const char *key);

/* A table that is made by one query. */
struct report_shape {
	const struct column *columns;
	size_t count;
	const struct report_key *keys;
	size_t key_count;
	const char *ties; /* order of rows for which the key is equal; without keys, the whole order */
	const char *
		collector; /* of the device side, or of stacks: if it did not run, there are no rows; NULL: always there */
	void (*finish)(struct table *table, sqlite3_stmt *row); /* corrects the newest row; NULL: nothing to do */
};
/* The rows of `sql`, which has no order. Its result columns are those of the table, in their order. Parameter 1, if
 * there is one, is the step. */
struct table *report_query(const struct reader *reader, const struct report_options *options,
			   const struct report_shape *shape, const char *sql);

/* Does the file's own table have this column? */
bool report_has_column(const struct reader *reader, const char *table, const char *column);
/* The self time of all operators on the host, and the time of all work on the devices, ns; -1: not recorded. */
int64_t report_self_cpu_total(const struct reader *reader, const struct report_options *options);
int64_t report_device_total(const struct reader *reader, const struct report_options *options);
/* Notes below a table that it is not known what launched the work of the devices, if that is so. */
void report_note_unattributed(struct table *table, const struct reader *reader);
/* Notes below a table the time of all work on the devices, if that was recorded. */
void report_note_device(struct table *table, const struct reader *reader, const struct report_options *options);

#endif
