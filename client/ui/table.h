/* table.h - rows and columns that are printed in three ways: as aligned text for people (print.h), as CSV, and as JSON
 * objects. Values are kept in their own units (ns, bytes, counts); only the text rounds them. One thread. */
#ifndef PROFD_CLIENT_UI_TABLE_H
#define PROFD_CLIENT_UI_TABLE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum column_kind {
	COLUMN_TEXT,
	COLUMN_NUMBER,	 /* a name that happens to be a number: pid, rank */
	COLUMN_COUNT,	 /* 1,234,567 */
	COLUMN_DURATION, /* ns */
	COLUMN_BYTES,
	COLUMN_PERCENT,	     /* real, 0 to 100 */
	COLUMN_FLAG,	     /* yes or no; true or false */
	COLUMN_RATE,	     /* real, bytes a ns: GB/s */
	COLUMN_SPEED,	     /* real, floating point operations a ns: GFLOP/s */
	COLUMN_RATIO,	     /* real, without a unit */
	COLUMN_MORE,	     /* ns, with its sign */
	COLUMN_MORE_PERCENT, /* real, with its sign */
	COLUMN_LIST,	     /* text of numbers with commas between; an array in JSON */
};

enum column_flag {
	COLUMN_ELASTIC = 1,    /* may be cut where the terminal is narrow */
	COLUMN_TABLE_ONLY = 2, /* for people's eyes */
	COLUMN_DATA_ONLY = 4,  /* for JSON and CSV */
	COLUMN_OPTIONAL = 8,   /* left out of the text table where no row has a value */
	COLUMN_WRAP = 16,    /* a sentence: the last column, which goes on below itself where the terminal is narrow */
	COLUMN_SPARE = 32,   /* left out of the text table where it would leave no room for what is elastic */
	COLUMN_NAME = 64,    /* of a kernel, operator or range: shortened by meaning (name.h); elastic, too */
	COLUMN_BARRED = 128, /* a share that a bar stands beside on a terminal, where there is room */
};

struct column {
	const char *key;   /* in JSON and CSV, where its unit is part of it */
	const char *title; /* in the text table */
	enum column_kind kind;
	unsigned flags;
};

/* An array, and how many entries it has. */
#define COUNTED(array) array, sizeof array / sizeof *array

struct table;

/* `columns` must live as long as the table. */
struct table *table_new(const struct column *columns, size_t count);
struct table *table_free(struct table *table); /* NULL */

/* Adds a row whose cells are all empty ("-", null); the setters work on the newest row. */
void table_add(struct table *table);
void table_set(struct table *table, size_t column, int64_t value);
void table_set_real(struct table *table, size_t column, double value);
void table_unset(struct table *table, size_t column);
void table_set_text(struct table *table, size_t column, const char *text); /* NULL: stays empty */
/* "not recorded": the input of this figure was not collected. null in JSON, empty in CSV. */
void table_set_absent(struct table *table, size_t column);
/* A cell from a member of an object, whatever its type; missing or null: stays empty. */
void table_set_member(struct table *table, size_t column, const cJSON *object, const char *key);
/* Makes the newest row stand out on a terminal. */
void table_mark(struct table *table);

/* How many rows there are in all, where these are only the first ones. */
void table_set_whole(struct table *table, size_t rows);

/* Adds a line that stands below the text table: what its figures leave out, or sum up to. */
void table_note(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

size_t table_rows(const struct table *table);
/* The lines that stand below the table; NULL: none. */
const char *table_notes(const struct table *table);
/* The column with this key, or `table_columns()`: there is none. */
size_t table_find(const struct table *table, const char *key);
size_t table_columns(const struct table *table);
const struct column *table_column(const struct table *table, size_t column);
/* A cell of a row: its text (the table's; NULL where it is none), its figure, in the column's unit (false: it has none). */
const char *table_text(const struct table *table, size_t row, size_t column);
bool table_figure(const struct table *table, size_t row, size_t column, double *ret);
/* Takes out the rows of which `keep` says false. The rows that are elsewhere (table_set_whole) are forgotten. */
void table_keep(struct table *table, bool (*keep)(const struct table *table, size_t row, void *context), void *context);

/* What a verb's --format can say. */
enum output_format { FORMAT_TABLE, FORMAT_JSON, FORMAT_CSV };

/* At most `limit` rows (0 = all). */
void table_csv(const struct table *table, FILE *file, size_t limit);
cJSON *table_json(const struct table *table, size_t limit);

#endif
