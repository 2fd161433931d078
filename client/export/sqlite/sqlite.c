/* sqlite.c - writes captures as one plain SQLite file with the tables of tables.def, which nsys's scripts, DuckDB and pandas read. One
 * thread: SQLite writes a file in one. */
#include "client/export/export.h"
#include "client/export/slice.h"
#include "client/export/stream.h"
#include "client/ui/figure.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS_MAX 40

struct rows {
	const char *table, *source, *select;
	bool once;
};

static const struct {
	const char *name, *columns;
} tables[] = {
#define TABLE(name, columns) {#name, columns},
#include "tables.def"
};

static const struct rows all_rows[] = {
#define ROWS(name, source, select) {#name, #source, select, false},
#define ONCE(name, source, select) {#name, #source, select, true},
#include "tables.def"
};

struct maker {
	sqlite3 *db; /* the file that is made */
	struct reader *reader;
	int64_t parameters[4]; /* ?1 to ?4 of tables.def */
	int64_t first_base;    /* base_realtime of the first capture */
	int64_t texts;	       /* highest id of a text so far */
	char *why;
	size_t why_bytes;
};

/* The file that is made has failed: it is full, or the disk is. */
static int cannot_write(const struct maker *m)
{
	snprintf(m->why, m->why_bytes, "the file cannot be written: %s", sqlite3_errmsg(m->db));
	return sqlite3_errcode(m->db) == SQLITE_NOMEM ? -ENOMEM : -EIO;
}

static int cannot_read(const struct maker *m)
{
	reader_why(m->reader, m->why, m->why_bytes);
	return -EIO;
}

static int make_tables(const struct maker *m)
{
	char sql[2048];
	/* Nobody else sees the file before it is whole. */
	if (sqlite3_exec(m->db,
			 "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN",
			 NULL, NULL, NULL) != SQLITE_OK)
		return cannot_write(m);
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		snprintf(sql, sizeof sql, "CREATE TABLE %s (%s)", tables[i].name, tables[i].columns);
		if (sqlite3_exec(m->db, sql, NULL, NULL, NULL) != SQLITE_OK)
			return cannot_write(m);
	}
	return 0;
}

/* "INSERT INTO name VALUES (?, ...)" */
static sqlite3_stmt *prepare_insert(const struct maker *m, const char *table, int columns)
{
	char sql[256];
	sqlite3_stmt *statement = NULL;
	int n = snprintf(sql, sizeof sql, "INSERT INTO %s VALUES (", table);
	for (int i = 0; i < columns; i++)
		n += snprintf(sql + n, sizeof sql - (size_t)n, "%s", i ? ", ?" : "?");
	snprintf(sql + n, sizeof sql - (size_t)n, ")");
	return sqlite3_prepare_v2(m->db, sql, -1, &statement, NULL) == SQLITE_OK ? statement : NULL;
}

/* A value that its table cannot hold stands in a broken file alone: the row is left out. */
static int put_row(const struct maker *m, sqlite3_stmt *insert, sqlite3_stmt *row, int columns)
{
	for (int i = 0; i < columns; i++)
		sqlite3_bind_value(insert, i + 1, sqlite3_column_value(row, i));
	int result = sqlite3_step(insert);
	sqlite3_reset(insert);
	return result == SQLITE_DONE || (result & 0xff) == SQLITE_CONSTRAINT ? 0 : cannot_write(m);
}

static int put_rows(const struct maker *m, const struct rows *rows)
{
	char there[160];
	snprintf(there, sizeof there, "SELECT count(*) FROM sqlite_master WHERE name = '%s'", rows->source);
	if (reader_count(m->reader, there, 0) == 0)
		return 0;
	sqlite3_stmt *row;
	if (sqlite3_prepare_v2(m->reader->db, rows->select, -1, &row, NULL) != SQLITE_OK)
		return cannot_read(m);
	/* Not every query has all of them. */
	for (int i = 0; i < 4; i++)
		sqlite3_bind_int64(row, i + 1, m->parameters[i]);
	int columns = sqlite3_column_count(row), error = 0, result = SQLITE_ERROR;
	sqlite3_stmt *insert = prepare_insert(m, rows->table, columns);
	if (!insert)
		error = cannot_write(m);
	while (!error && (result = sqlite3_step(row)) == SQLITE_ROW)
		error = put_row(m, insert, row, columns);
	if (!error && result != SQLITE_DONE)
		error = cannot_read(m);
	sqlite3_finalize(row);
	sqlite3_finalize(insert);
	return error;
}

static int put_capture(struct maker *m, size_t index, const struct export_options *options)
{
	struct slice slice;
	int64_t base = figure_time(reader_meta_int(m->reader, "base_realtime", 0));
	if (index == 0)
		m->first_base = base;
	m->parameters[0] = base - m->first_base;
	m->parameters[1] = m->texts;
	m->parameters[2] = (int64_t)(index & 0xff) << 48;
	m->parameters[3] = (int64_t)index;
	int error = slice_find(&slice, m->reader, options, m->why, m->why_bytes);
	if (!error && slice_register(&slice, m->reader))
		error = cannot_read(m);
	for (size_t i = 0; i < sizeof all_rows / sizeof *all_rows && !error; i++)
		if (index == 0 || !all_rows[i].once)
			error = put_rows(m, &all_rows[i]);
	/* The functions know the slice. */
	slice_unregister(m->reader);
	slice_deinit(&slice);
	m->texts += figure_length(reader_count(m->reader, "SELECT max(id) FROM strings", 0));
	return error;
}

static int make(struct maker *m, struct reader *readers, size_t count, const struct export_options *options,
		const char *path)
{
	int error;
	if (sqlite3_open_v2(path, &m->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) !=
	    SQLITE_OK)
		error = cannot_write(m);
	else
		error = make_tables(m);
	for (size_t i = 0; i < count && !error; i++) {
		m->reader = &readers[i];
		error = put_capture(m, i, options);
	}
	if (!error && sqlite3_exec(m->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
		error = cannot_write(m);
	if (sqlite3_close(m->db) != SQLITE_OK && !error)
		error = -EIO;
	return error;
}

/* For what is no file, such as a pipe: SQLite writes back and forth, so it writes elsewhere first. */
static int make_and_copy(struct maker *m, struct reader *readers, size_t count, const struct export_options *options,
			 struct stream *stream)
{
	const char *folder = getenv("TMPDIR");
	char path[512], bytes[1 << 16];
	snprintf(path, sizeof path, "%.450s/profd-export-XXXXXX", folder && *folder ? folder : "/tmp");
	int fd = mkstemp(path);
	if (fd < 0) {
		snprintf(m->why, m->why_bytes, "cannot write a file in %.450s: %s; TMPDIR names another folder",
			 folder && *folder ? folder : "/tmp", strerror(errno));
		return -errno;
	}
	int error = make(m, readers, count, options, path);
	unlink(path);
	struct block *head = stream_head(stream);
	for (ssize_t n; !error && (n = read(fd, bytes, sizeof bytes)) != 0;) {
		error = n < 0 ? -errno : 0;
		if (!error) {
			buffer_put(&head->text, bytes, (size_t)n);
			error = block_flush_full(head);
		}
	}
	close(fd);
	return error ? error : block_flush(head);
}

export_write sqlite_write;

int sqlite_write(struct reader *readers, size_t count, const struct export_options *options, struct stream *stream,
		 char *why, size_t why_bytes)
{
	struct maker m = {.why = why, .why_bytes = why_bytes};
	const char *path = stream_path(stream);
	return path ? make(&m, readers, count, options, path) : make_and_copy(&m, readers, count, options, stream);
}
