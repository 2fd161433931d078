/* tables.c - see tables.h. */
#include "tables.h"
#include "proto/base/array.h"
#include "proto/columns.h"
#include "file.h"
#include "proto/version.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- batches --- */

static size_t row_bytes(unsigned kind)
{
	switch (kind) {
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	case number:                                                                                                   \
		return sizeof(struct event_##name);
#include "proto/events.def"
	default:
		return 0;
	}
}

int store_batch_add(struct store_batch *batch, const union event_any *event)
{
	unsigned kind = event->head.kind;
	size_t bytes = row_bytes(kind);
	if (bytes == 0)
		return -EPROTO;
	struct store_rows *rows = &batch->kinds[kind];
	void *grown = array_grow(rows->rows, rows->count, &rows->capacity, bytes);
	if (!grown)
		return -ENOMEM;
	rows->rows = grown;
	memcpy((char *)rows->rows + rows->count++ * bytes, event, bytes);
	return 0;
}

void store_batch_clear(struct store_batch *batch)
{
	for (unsigned kind = 0; kind < EVENT_KIND_COUNT; kind++)
		batch->kinds[kind].count = 0;
}

void store_batch_deinit(struct store_batch *batch)
{
	for (unsigned kind = 0; kind < EVENT_KIND_COUNT; kind++)
		free(batch->kinds[kind].rows);
	memset(batch, 0, sizeof *batch);
}

/* --- the virtual tables source_<name>: the rows of the batch, each member a column --- */

struct source {
	sqlite3_vtab table;
	struct store *store;
};
struct source_cursor {
	sqlite3_vtab_cursor cursor;
	const struct store *store;
	size_t at, count;
	const unsigned char *rows;
};

#define ROLE_TIME(value) sqlite3_result_int64(context, (sqlite3_int64)((uint64_t)(value)-cursor->store->base));
#define ROLE_TIME_OR_NONE(value)                                                                                       \
	if (value)                                                                                                     \
	ROLE_TIME(value)
#define ROLE_SPAN(value) sqlite3_result_int64(context, (sqlite3_int64)(value));
#define ROLE_INT(value) sqlite3_result_int64(context, (sqlite3_int64)(value));
#define ROLE_BITS(value) sqlite3_result_int64(context, (sqlite3_int64)(value));
#define ROLE_THREAD(value) sqlite3_result_int64(context, (sqlite3_int64)(value));
#define ROLE_ID(value)                                                                                                 \
	if (value)                                                                                                     \
		sqlite3_result_int64(context, (sqlite3_int64)(value));
#define ROLE_STRING(value) ROLE_ID(value)
#define ROLE_INPUTS(value) ROLE_ID(value)
#define ROLE_SELF ROLE_SPAN
#define ROLE_CORRELATION ROLE_INT
#define ROLE_CORRELATION_OR_NONE ROLE_INT
#define ROLE_BYTES ROLE_INT
#define ROLE_MOST(most) ROLE_INT
#define ROLE_REAL(value) sqlite3_result_double(context, (value));
#define ROLE_SKIP(value)

/* Column numbers of source_<name>. */
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	enum { SOURCE_##name##_step, SOURCE_##name##_flags,
#define FIELD(NAME, name, offset, type, member, role, column, description) SOURCE_##name##_##member,
#define END_EVENT(NAME, name, size)                                                                                    \
	SOURCE_##name##_count                                                                                          \
	}                                                                                                              \
	;
#include "proto/events.def"

#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	static int source_##name##_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)             \
	{                                                                                                              \
		const struct source_cursor *cursor = (const struct source_cursor *)base;                               \
		const struct event_##name *event =                                                                     \
			(const struct event_##name *)(const void *)cursor->rows + cursor->at;                          \
		switch (column) {                                                                                      \
		case SOURCE_##name##_step:                                                                             \
			ROLE_ID(event->head.step)                                                                      \
			break;                                                                                         \
		case SOURCE_##name##_flags:                                                                            \
			ROLE_BITS(event->head.flags)                                                                   \
			break;
#define FIELD(NAME, name, offset, type, member, role, column, description)                                             \
	case SOURCE_##name##_##member:                                                                                 \
		ROLE_##role(event->member) break;
#define END_EVENT(NAME, name, size)                                                                                    \
	default:                                                                                                       \
		break;                                                                                                 \
		}                                                                                                      \
		return SQLITE_OK;                                                                                      \
		}
#include "proto/events.def"

static int source_connect(sqlite3 *db, struct store *store, const char *declaration, sqlite3_vtab **ret)
{
	int error = sqlite3_declare_vtab(db, declaration);
	if (error)
		return error;
	struct source *source = sqlite3_malloc(sizeof *source);
	if (!source)
		return SQLITE_NOMEM;
	memset(source, 0, sizeof *source);
	source->store = store;
	*ret = &source->table;
	return SQLITE_OK;
}

static int source_disconnect(sqlite3_vtab *table)
{
	sqlite3_free(table);
	return SQLITE_OK;
}

static int source_best_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
	(void)table;
	info->estimatedCost = 1000;
	return SQLITE_OK;
}

static int source_open(sqlite3_vtab *table, sqlite3_vtab_cursor **ret)
{
	struct source_cursor *cursor = sqlite3_malloc(sizeof *cursor);
	if (!cursor)
		return SQLITE_NOMEM;
	memset(cursor, 0, sizeof *cursor);
	cursor->store = ((struct source *)table)->store;
	*ret = &cursor->cursor;
	return SQLITE_OK;
}

static int source_close(sqlite3_vtab_cursor *cursor)
{
	sqlite3_free(cursor);
	return SQLITE_OK;
}

static int source_next(sqlite3_vtab_cursor *base)
{
	((struct source_cursor *)base)->at++;
	return SQLITE_OK;
}

static int source_eof(sqlite3_vtab_cursor *base)
{
	const struct source_cursor *cursor = (const struct source_cursor *)base;
	return cursor->at >= cursor->count;
}

static int source_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
	*ret = (sqlite3_int64)((struct source_cursor *)base)->at;
	return SQLITE_OK;
}

static void source_rewind(struct source_cursor *cursor, unsigned kind)
{
	const struct store_rows *rows = &cursor->store->batch->kinds[kind];
	cursor->rows = rows->rows;
	cursor->count = rows->count;
	cursor->at = 0;
}

#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	static const char source_##name##_declaration[] = "CREATE TABLE x(step,flags"
#define FIELD(NAME, name, offset, type, member, role, column, description) "," #member
#define END_EVENT(NAME, name, size) ")";
#include "proto/events.def"

#define EVENT(number, NAME, name, table_name, min_size, side, place, description)                                      \
	static int source_##name##_connect(sqlite3 *db, void *store, int argc, const char *const *argv,                \
					   sqlite3_vtab **ret, char **ret_error)                                       \
	{                                                                                                              \
		(void)argc, (void)argv, (void)ret_error;                                                               \
		return source_connect(db, store, source_##name##_declaration, ret);                                    \
	}                                                                                                              \
	static int source_##name##_filter(sqlite3_vtab_cursor *cursor, int index, const char *text, int argc,          \
					  sqlite3_value **argv)                                                        \
	{                                                                                                              \
		(void)index, (void)text, (void)argc, (void)argv;                                                       \
		source_rewind((struct source_cursor *)cursor, number);                                                 \
		return SQLITE_OK;                                                                                      \
	}                                                                                                              \
	static const sqlite3_module source_##name##_module = {                                                         \
		.xConnect = source_##name##_connect,                                                                   \
		.xBestIndex = source_best_index,                                                                       \
		.xDisconnect = source_disconnect,                                                                      \
		.xOpen = source_open,                                                                                  \
		.xClose = source_close,                                                                                \
		.xFilter = source_##name##_filter,                                                                     \
		.xNext = source_next,                                                                                  \
		.xEof = source_eof,                                                                                    \
		.xColumn = source_##name##_column,                                                                     \
		.xRowid = source_rowid,                                                                                \
	};
#include "proto/events.def"

/* --- the schema of the event tables --- */

struct column {
	const char *member, *column;
};
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	static const struct column columns_##name[] = {
#define FIELD(NAME, name, offset, type, member, role, column, description) {#member, column},
#define END_EVENT(NAME, name, size)                                                                                    \
	}                                                                                                              \
	;
#include "proto/events.def"

struct table {
	unsigned kind;
	const char *name, *table;
	const struct column *columns;
	size_t column_count;
	const sqlite3_module *module;
};
static const struct table tables[] = {
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	{number, #name, table, columns_##name, sizeof columns_##name / sizeof *columns_##name, &source_##name##_module},
#include "proto/events.def"
};
#define TABLE_COUNT (sizeof tables / sizeof *tables)

static void text_append(char *to, size_t to_bytes, const char *text)
{
	size_t at = strlen(to);
	if (at < to_bytes)
		snprintf(to + at, to_bytes - at, "%s", text);
}

static int prepare_insert(struct store *store, const struct table *table)
{
	char name[64];
	snprintf(name, sizeof name, "source_%s", table->name);
	if (sqlite3_create_module(store->db, name, table->module, store))
		return store_fail(store, "opening");
	char sql[2048] = "INSERT INTO main.";
	text_append(sql, sizeof sql, table->table);
	text_append(sql, sizeof sql, " SELECT step, flags");
	for (size_t i = 0; i < table->column_count; i++) {
		if (!*table->columns[i].column)
			continue;
		text_append(sql, sizeof sql, ", ");
		text_append(sql, sizeof sql, table->columns[i].member);
	}
	text_append(sql, sizeof sql, " FROM ");
	text_append(sql, sizeof sql, name);
	store->insert[table->kind] = store_prepare(store, sql);
	return store->error;
}

/* statement: "CREATE TABLE ..." or "CREATE VIEW ..." */
static void make(struct store *store, const char *statement)
{
	const char *name = strchr(statement + sizeof "CREATE", ' ');
	char *sql = sqlite3_mprintf("%.*s IF NOT EXISTS%s", (int)(name - statement), statement, name);
	store_run(store, sql ? sql : "");
	sqlite3_free(sql);
}

int store_make_tables(struct store *store)
{
	static const char *const statements[] = {
#define CAPTURE_SQL(statement) statement,
#include "proto/schema.def"
	};
	for (size_t i = 0; i < TABLE_COUNT; i++)
		make(store, event_create_table(tables[i].kind));
	for (size_t i = 0; i < sizeof statements / sizeof *statements && !store->error; i++)
		make(store, statements[i]);
	char version[64];
	snprintf(version, sizeof version, "PRAGMA user_version=%d", CAPTURE_SCHEMA_VERSION);
	return store_run(store, version);
}

int store_put_batch(struct store *store, const struct store_batch *batch)
{
	store->batch = batch;
	for (size_t i = 0; i < TABLE_COUNT && !store->error; i++) {
		unsigned kind = tables[i].kind;
		if (batch->kinds[kind].count && (store->insert[kind] || prepare_insert(store, &tables[i]) == 0))
			store_step(store, store->insert[kind]);
	}
	store->batch = NULL;
	return store->error;
}

/* --- rows become records again --- */

#define SELECT_INTEGER(column) ", " column
#define SELECT_TIME SELECT_INTEGER
#define SELECT_TIME_OR_NONE SELECT_INTEGER
#define SELECT_SPAN SELECT_INTEGER
#define SELECT_SELF SELECT_INTEGER
#define SELECT_ID SELECT_INTEGER
#define SELECT_STRING SELECT_INTEGER
#define SELECT_INPUTS SELECT_INTEGER
#define SELECT_THREAD SELECT_INTEGER
#define SELECT_CORRELATION SELECT_INTEGER
#define SELECT_CORRELATION_OR_NONE SELECT_INTEGER
#define SELECT_BYTES SELECT_INTEGER
#define SELECT_INT SELECT_INTEGER
#define SELECT_MOST(most) SELECT_INTEGER
#define SELECT_BITS SELECT_INTEGER
#define SELECT_REAL SELECT_INTEGER
#define SELECT_SKIP(column)

static const char *columns_of(unsigned kind)
{
	switch (kind) {
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	case number:                                                                                                   \
		return "rowid, step, flags"
#define FIELD(NAME, name, offset, type, member, role, column, description) SELECT_##role(column)
#define END_EVENT(NAME, name, size) ;
#include "proto/events.def"
	default:
		return NULL;
	}
}

sqlite3_stmt *store_select_events(struct store *store, unsigned kind)
{
	const char *columns = columns_of(kind);
	if (!columns) {
		store_set_error(store, -EPROTO, "there is no such kind of event");
		return NULL;
	}
	char sql[2048];
	snprintf(sql, sizeof sql, "SELECT %s FROM %s ORDER BY rowid", columns, event_table(kind));
	return store_prepare(store, sql);
}

/* NULL reads as 0. These use `at`, `statement` and `store`. */
#define READ_INTEGER(value) (value) = (__typeof__(value))sqlite3_column_int64(statement, at++);
#define READ_TIME(value) (value) = (uint64_t)sqlite3_column_int64(statement, at++) + store->base;
#define READ_TIME_OR_NONE(value)                                                                                       \
	(value) = sqlite3_column_type(statement, at) == SQLITE_NULL                                                    \
			  ? 0                                                                                          \
			  : (uint64_t)sqlite3_column_int64(statement, at) + store->base;                               \
	at++;
#define READ_SPAN READ_INTEGER
#define READ_SELF READ_INTEGER
#define READ_ID READ_INTEGER
#define READ_STRING READ_INTEGER
#define READ_INPUTS READ_INTEGER
#define READ_THREAD READ_INTEGER
#define READ_CORRELATION READ_INTEGER
#define READ_CORRELATION_OR_NONE READ_INTEGER
#define READ_BYTES READ_INTEGER
#define READ_INT READ_INTEGER
#define READ_MOST(most) READ_INTEGER
#define READ_BITS READ_INTEGER
#define READ_REAL(value) (value) = sqlite3_column_double(statement, at++);
#define READ_SKIP(value)

uint64_t store_read_event(const struct store *store, sqlite3_stmt *statement, unsigned kind, union event_any *ret)
{
	int at = 3;
	memset(ret, 0, sizeof *ret);
	ret->head.kind = (uint8_t)kind;
	ret->head.step = (uint32_t)sqlite3_column_int64(statement, 1);
	ret->head.flags = (uint8_t)sqlite3_column_int64(statement, 2);
	switch (kind) {
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	case number:                                                                                                   \
		ret->head.size = sizeof(struct event_##name);
#define FIELD(NAME, name, offset, type, member, role, column, description) READ_##role(ret->name.member)
#define END_EVENT(NAME, name, size) break;
#include "proto/events.def"
	default:
		break; /* store_select_events() has no statement for it */
	}
	return (uint64_t)sqlite3_column_int64(statement, 0);
}

uint64_t store_count_events(struct store *store)
{
	uint64_t events = 0;
	for (size_t i = 0; i < TABLE_COUNT; i++) {
		char sql[128];
		snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", tables[i].table);
		sqlite3_stmt *statement = store_prepare(store, sql);
		if (statement && sqlite3_step(statement) == SQLITE_ROW)
			events += (uint64_t)sqlite3_column_int64(statement, 0);
		sqlite3_finalize(statement);
	}
	return events;
}
