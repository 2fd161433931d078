/* store.c - see store.h. Threads: one at a time for each store (SQLite without its own locks). */
#include "store.h"
#include "proto/version.h"
#include "base/space.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- batches --- */

static size_t row_bytes(unsigned kind)
{
	switch (kind) {
#define EVENT(number, NAME, name, table, min_size, description)                                                        \
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
	if (rows->count == rows->capacity) {
		size_t capacity = rows->capacity ? rows->capacity * 2 : 1024;
		void *grown = realloc(rows->rows, capacity * bytes);
		if (!grown)
			return -ENOMEM;
		rows->rows = grown;
		rows->capacity = capacity;
	}
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

/* --- the virtual tables source_<name>: the rows of the batch, with all members as columns --- */

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
#define ROLE_SKIP(value)

/* Column numbers of source_<name>. */
#define EVENT(number, NAME, name, table, min_size, description) enum { SOURCE_##name##_step, SOURCE_##name##_flags,
#define FIELD(NAME, name, offset, type, member, role, column, description) SOURCE_##name##_##member,
#define END_EVENT(NAME, name, size)                                                                                    \
	SOURCE_##name##_count                                                                                          \
	}                                                                                                              \
	;
#include "proto/events.def"

#define EVENT(number, NAME, name, table, min_size, description)                                                        \
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

#define EVENT(number, NAME, name, table, min_size, description)                                                        \
	static const char source_##name##_declaration[] = "CREATE TABLE x(step,flags"
#define FIELD(NAME, name, offset, type, member, role, column, description) "," #member
#define END_EVENT(NAME, name, size) ")";
#include "proto/events.def"

#define EVENT(number, NAME, name, table_name, min_size, description)                                                   \
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
#define EVENT(number, NAME, name, table, min_size, description) static const struct column columns_##name[] = {
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
#define EVENT(number, NAME, name, table, min_size, description)                                                        \
	{number, #name, table, columns_##name, sizeof columns_##name / sizeof *columns_##name, &source_##name##_module},
#include "proto/events.def"
};
#define TABLE_COUNT (sizeof tables / sizeof *tables)

/* Derive and summary need room when all else of the disk is taken. 512 KiB: totals of 5,000 names and steps, a summary of
 * 48 KiB, and the journal's copies of pages. */
#define RESERVE_BYTES (512 << 10)

/* What the disk said, in words. False where it was not the disk. */
static bool say(struct store *store, int cause, uint64_t needed)
{
	char folder[sizeof store->path];
	text_copy(folder, sizeof folder, store->path);
	char *slash = strrchr(folder, '/');
	if (slash)
		*slash = 0;
	/* SQLite, which cannot open a file for writing, tries to read it, and tells of that. */
	if (cause == ENOENT && access(folder, W_OK))
		cause = errno;
	return space_error_sentence(store->folder, folder, cause, needed, store->sentence, sizeof store->sentence);
}

int store_fail(struct store *store, const char *doing)
{
	if (store->error)
		return store->error;
	int code = store->db ? sqlite3_errcode(store->db) : SQLITE_NOMEM;
	int cause = store->db ? sqlite3_system_errno(store->db) : ENOMEM;
	bool full = code == SQLITE_FULL || cause == ENOSPC || cause == EDQUOT;
	store->error = full ? -ENOSPC : code == SQLITE_NOMEM ? -ENOMEM : -EIO;
	if (code == SQLITE_FULL && cause != EDQUOT)
		cause = ENOSPC;
	if ((full || code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_IOERR) &&
	    say(store, code == SQLITE_READONLY ? EROFS : cause, 0))
		return store->error;
	if (code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_IOERR)
		snprintf(store->sentence, sizeof store->sentence,
			 "the store cannot be written (%s: %s); `profd status` names it", sqlite3_errmsg(store->db),
			 strerror(cause));
	else
		snprintf(store->sentence, sizeof store->sentence, "%s the capture's file: %s", doing,
			 store->db ? sqlite3_errmsg(store->db) : "out of memory");
	return store->error;
}

int store_run(struct store *store, const char *sql)
{
	if (store->error)
		return store->error;
	return sqlite3_exec(store->db, sql, NULL, NULL, NULL) ? store_fail(store, "writing") : 0;
}

sqlite3_stmt *store_prepare(struct store *store, const char *sql)
{
	sqlite3_stmt *statement = NULL;
	if (store->error)
		return NULL;
	if (sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL)) {
		store_fail(store, "reading");
		return NULL;
	}
	return statement;
}

static void text_append(char *to, size_t to_bytes, const char *text)
{
	size_t at = strlen(to);
	if (at < to_bytes)
		snprintf(to + at, to_bytes - at, "%s", text);
}

static int create_event_table(struct store *store, const struct table *table)
{
	char sql[2048] = "CREATE TABLE IF NOT EXISTS ";
	text_append(sql, sizeof sql, table->table);
	text_append(sql, sizeof sql, " (step INTEGER, flags INTEGER NOT NULL");
	for (size_t i = 0; i < table->column_count; i++) {
		if (!*table->columns[i].column)
			continue;
		text_append(sql, sizeof sql, ", ");
		text_append(sql, sizeof sql, table->columns[i].column);
		text_append(sql, sizeof sql, " INTEGER");
	}
	text_append(sql, sizeof sql, ")");
	return store_run(store, sql);
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

static void name_files(struct store *store, int folder, const char *folder_path, uint64_t number)
{
	memset(store, 0, sizeof *store);
	store->folder = folder;
	snprintf(store->partial_name, sizeof store->partial_name, "%" PRIu64 ".partial", number);
	snprintf(store->final_name, sizeof store->final_name, "%" PRIu64 ".db", number);
	snprintf(store->path, sizeof store->path, "%s/%s", folder_path, store->partial_name);
	snprintf(store->final_path, sizeof store->final_path, "%s/%s", folder_path, store->final_name);
}

static int open_database(struct store *store, int flags)
{
	if (sqlite3_open_v2(store->path, &store->db,
			    flags | SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX, NULL))
		return store_fail(store, "opening");
	sqlite3_extended_result_codes(store->db, 0);
	sqlite3_busy_timeout(store->db, 1000);
	return store_run(store, "PRAGMA page_size=16384; PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=PERSIST;"
				"PRAGMA synchronous=OFF; PRAGMA cache_size=-8192; PRAGMA temp_store=FILE;"
				"PRAGMA trusted_schema=OFF");
}

void store_temporary_folder(const char *folder_path)
{
	sqlite3_temp_directory = sqlite3_mprintf("%s", folder_path);
}

int store_without_disk(struct store *store)
{
	return store_run(store, "PRAGMA temp_store=MEMORY");
}

static int prepare_all(struct store *store)
{
	store->insert_string = store_prepare(store, "INSERT OR IGNORE INTO strings (id, text) VALUES (?, ?)");
	store->insert_inputs = store_prepare(store, "INSERT OR IGNORE INTO inputs (id, dims, types, strides, concrete) "
						    "VALUES (?, ?, ?, ?, ?)");
	store->insert_ingested = store_prepare(store, "INSERT OR IGNORE INTO ingested (sequence) VALUES (?)");
	store->meta = store_prepare(store, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)");
	return store->error;
}

static void reserve_name(const struct store *store, char ret[64])
{
	snprintf(ret, 64, "%.*s.reserve", (int)strcspn(store->partial_name, "."), store->partial_name);
}

static int reserve(struct store *store)
{
	char name[64];
	reserve_name(store, name);
	int fd = openat(store->folder, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int error = fd < 0 || fallocate(fd, 0, 0, RESERVE_BYTES) ? errno : 0;
	if (fd >= 0)
		close(fd);
	store->reserved = fd >= 0;
	/* A file system that cannot reserve is used as it is. */
	if (error == 0 || error == EOPNOTSUPP || error == ENOSYS)
		return 0;
	store_release(store);
	store->error = -error;
	if (error == ENOSPC || error == EDQUOT)
		store->error = -ENOSPC;
	if (!say(store, error, RESERVE_BYTES))
		snprintf(store->sentence, sizeof store->sentence, "the store cannot be written: %s", strerror(error));
	return store->error;
}

void store_release(struct store *store)
{
	char name[64];
	reserve_name(store, name);
	if (store->reserved)
		unlinkat(store->folder, name, 0);
	store->reserved = false;
}

int store_make_tables(struct store *store)
{
	static const char *const statements[] = {
#define CAPTURE_SQL(statement) statement,
#include "proto/schema.def"
	};
	for (size_t i = 0; i < TABLE_COUNT; i++)
		create_event_table(store, &tables[i]);
	for (size_t i = 0; i < sizeof statements / sizeof *statements && !store->error; i++) {
		/* "CREATE TABLE ..." or "CREATE VIEW ..." */
		const char *name = strchr(statements[i] + sizeof "CREATE", ' ');
		char *sql = sqlite3_mprintf("%.*s IF NOT EXISTS%s", (int)(name - statements[i]), statements[i], name);
		store_run(store, sql ? sql : "");
		sqlite3_free(sql);
	}
	char version[64];
	snprintf(version, sizeof version, "PRAGMA user_version=%d", CAPTURE_SCHEMA_VERSION);
	return store_run(store, version);
}

int store_create(struct store *store, int folder, const char *folder_path, uint64_t number)
{
	name_files(store, folder, folder_path, number);
	if (reserve(store) || open_database(store, SQLITE_OPEN_CREATE))
		return store->error;
	fchmodat(folder, store->partial_name, 0640, 0);
	store_begin(store);
	store_make_tables(store);
	prepare_all(store);
	return store_commit(store);
}

int store_open(struct store *store, int folder, const char *folder_path, uint64_t number)
{
	name_files(store, folder, folder_path, number);
	store->schema = -1;
	if (open_database(store, 0))
		return store->error;
	sqlite3_stmt *statement = store_prepare(store, "PRAGMA user_version");
	if (statement && sqlite3_step(statement) == SQLITE_ROW)
		store->schema = sqlite3_column_int(statement, 0);
	else
		store_fail(store, "reading");
	sqlite3_finalize(statement);
	if (!store->error && (store->schema > CAPTURE_SCHEMA_VERSION || store->schema < 1)) {
		snprintf(store->sentence, sizeof store->sentence,
			 "the partial file has schema %d, this release knows %d", store->schema,
			 CAPTURE_SCHEMA_VERSION);
		store->error = -EPROTO;
	}
	if (!store->error && store->schema < CAPTURE_SCHEMA_VERSION)
		store_upgrade(store);
	return prepare_all(store);
}

void store_rest(struct store *store)
{
	if (store->db)
		sqlite3_db_release_memory(store->db);
}

void store_deinit(struct store *store)
{
	for (unsigned kind = 0; kind < EVENT_KIND_COUNT; kind++)
		sqlite3_finalize(store->insert[kind]);
	sqlite3_finalize(store->insert_string);
	sqlite3_finalize(store->insert_inputs);
	sqlite3_finalize(store->insert_ingested);
	sqlite3_finalize(store->find_ingested);
	sqlite3_finalize(store->meta);
	memset(store->insert, 0, sizeof store->insert);
	store->insert_string = store->insert_inputs = store->insert_ingested = store->find_ingested = store->meta =
		NULL;
	sqlite3_close(store->db);
	store->db = NULL;
}

int store_begin(struct store *store)
{
	return store_run(store, "BEGIN IMMEDIATE");
}

int store_commit(struct store *store)
{
	return store_run(store, "COMMIT");
}

void store_rollback(struct store *store)
{
	if (store->db && !sqlite3_get_autocommit(store->db))
		sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
}

static int run_bound(struct store *store, sqlite3_stmt *statement)
{
	int code = sqlite3_step(statement);
	if (code != SQLITE_DONE)
		store_fail(store, "writing");
	sqlite3_reset(statement);
	return store->error;
}

int store_put_batch(struct store *store, const struct store_batch *batch)
{
	store->batch = batch;
	for (size_t i = 0; i < TABLE_COUNT && !store->error; i++) {
		unsigned kind = tables[i].kind;
		if (batch->kinds[kind].count && (store->insert[kind] || prepare_insert(store, &tables[i]) == 0))
			run_bound(store, store->insert[kind]);
	}
	store->batch = NULL;
	return store->error;
}

int store_put_string(struct store *store, uint32_t id, const char *text, size_t n)
{
	if (store->error)
		return store->error;
	sqlite3_bind_int64(store->insert_string, 1, id);
	sqlite3_bind_text(store->insert_string, 2, text, (int)n, SQLITE_STATIC);
	return run_bound(store, store->insert_string);
}

int store_put_inputs(struct store *store, uint32_t id, const char *dims, const char *types, const char *strides,
		     const char *concrete)
{
	if (store->error)
		return store->error;
	sqlite3_bind_int64(store->insert_inputs, 1, id);
	sqlite3_bind_text(store->insert_inputs, 2, dims, -1, SQLITE_STATIC);
	sqlite3_bind_text(store->insert_inputs, 3, types, -1, SQLITE_STATIC);
	sqlite3_bind_text(store->insert_inputs, 4, strides, -1, SQLITE_STATIC);
	sqlite3_bind_text(store->insert_inputs, 5, concrete, -1, SQLITE_STATIC);
	return run_bound(store, store->insert_inputs);
}

int store_put_ingested(struct store *store, uint32_t sequence)
{
	if (store->error)
		return store->error;
	sqlite3_bind_int64(store->insert_ingested, 1, sequence);
	return run_bound(store, store->insert_ingested);
}

int store_meta_text(struct store *store, const char *key, const char *value)
{
	if (store->error)
		return store->error;
	sqlite3_bind_text(store->meta, 1, key, -1, SQLITE_STATIC);
	sqlite3_bind_text(store->meta, 2, value, -1, SQLITE_STATIC);
	return run_bound(store, store->meta);
}

int store_meta_int(struct store *store, const char *key, int64_t value)
{
	if (store->error)
		return store->error;
	sqlite3_bind_text(store->meta, 1, key, -1, SQLITE_STATIC);
	sqlite3_bind_int64(store->meta, 2, value);
	return run_bound(store, store->meta);
}

/* capture_id and trigger_id stand in meta as plain numbers while the file is partial; store_finish's caller writes the
 * texts that users know. */
int store_put_facts(struct store *store, const struct capture_facts *facts)
{
	const struct identity *who = &facts->who;
	store_meta_int(store, "schema", CAPTURE_SCHEMA_VERSION);
	store_meta_text(store, "profd_version", PROFD_VERSION);
	store_meta_text(store, "agent_version", who->agent_version);
	store_meta_int(store, "capture_id", (int64_t)facts->number);
	store_meta_int(store, "trigger_id", (int64_t)facts->trigger);
	store_meta_int(store, "cycle", (int64_t)facts->cycle);
	store_meta_int(store, "pid", who->pid);
	store_meta_int(store, "agent_pid", who->agent_pid);
	store_meta_text(store, "pids", who->pids);
	store_meta_int(store, "uid", (int64_t)who->uid);
	store_meta_int(store, "start_time", (int64_t)who->start_time);
	store_meta_text(store, "host", who->host);
	store_meta_text(store, "name", who->name);
	store_meta_text(store, "command", who->command);
	store_meta_text(store, "job", who->job);
	store_meta_text(store, "launcher", who->launcher);
	if (who->rank >= 0)
		store_meta_int(store, "rank", who->rank);
	if (who->local_rank >= 0)
		store_meta_int(store, "local_rank", who->local_rank);
	if (who->world_size >= 0)
		store_meta_int(store, "world_size", who->world_size);
	store_meta_text(store, "torch_version", who->torch_version);
	store_meta_text(store, "label", facts->label);
	store_meta_int(store, "started", (int64_t)facts->started);
	return store_meta_int(store, "steps_wanted", (int64_t)facts->steps_wanted);
}

static sqlite3_stmt *meta_find(struct store *store, const char *key)
{
	sqlite3_stmt *statement = store_prepare(store, "SELECT value FROM meta WHERE key = ?");
	if (!statement)
		return NULL;
	sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
	if (sqlite3_step(statement) == SQLITE_ROW)
		return statement;
	sqlite3_finalize(statement);
	return NULL;
}

int64_t store_get_int(struct store *store, const char *key)
{
	sqlite3_stmt *statement = meta_find(store, key);
	int64_t value = statement ? sqlite3_column_int64(statement, 0) : 0;
	sqlite3_finalize(statement);
	return value;
}

static int32_t get_small(struct store *store, const char *key)
{
	sqlite3_stmt *statement = meta_find(store, key);
	int32_t value = statement ? sqlite3_column_int(statement, 0) : -1;
	sqlite3_finalize(statement);
	return value;
}

void store_get_text(struct store *store, const char *key, char *to, size_t to_bytes)
{
	sqlite3_stmt *statement = meta_find(store, key);
	const char *text = statement ? (const char *)sqlite3_column_text(statement, 0) : NULL;
	text_copy(to, to_bytes, text ? text : "");
	sqlite3_finalize(statement);
}

int store_get_facts(struct store *store, struct capture_facts *ret)
{
	struct capture_facts facts = {0};
	struct identity *who = &facts.who;
	facts.number = (uint64_t)store_get_int(store, "capture_id");
	facts.trigger = (uint64_t)store_get_int(store, "trigger_id");
	facts.cycle = (uint64_t)store_get_int(store, "cycle");
	facts.steps_wanted = (uint64_t)store_get_int(store, "steps_wanted");
	facts.started = (uint64_t)store_get_int(store, "started");
	who->pid = (pid_t)store_get_int(store, "pid");
	who->agent_pid = (pid_t)store_get_int(store, "agent_pid");
	store_get_text(store, "pids", who->pids, sizeof who->pids);
	who->uid = (uid_t)store_get_int(store, "uid");
	who->start_time = (uint64_t)store_get_int(store, "start_time");
	who->rank = get_small(store, "rank");
	who->local_rank = get_small(store, "local_rank");
	who->world_size = get_small(store, "world_size");
	store_get_text(store, "host", who->host, sizeof who->host);
	store_get_text(store, "name", who->name, sizeof who->name);
	store_get_text(store, "command", who->command, sizeof who->command);
	store_get_text(store, "job", who->job, sizeof who->job);
	store_get_text(store, "launcher", who->launcher, sizeof who->launcher);
	store_get_text(store, "torch_version", who->torch_version, sizeof who->torch_version);
	store_get_text(store, "agent_version", who->agent_version, sizeof who->agent_version);
	store_get_text(store, "label", facts.label, sizeof facts.label);
	if (store->error)
		return store->error;
	if (facts.number == 0)
		return -EPROTO;
	*ret = facts;
	return 0;
}

bool store_has_ingested(struct store *store, uint32_t sequence)
{
	if (!store->find_ingested)
		store->find_ingested = store_prepare(store, "SELECT 1 FROM ingested WHERE sequence = ?");
	if (!store->find_ingested)
		return false;
	sqlite3_bind_int64(store->find_ingested, 1, sequence);
	bool has = sqlite3_step(store->find_ingested) == SQLITE_ROW;
	sqlite3_reset(store->find_ingested);
	return has;
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

static int to_disk(struct store *store, int error)
{
	if (error == 0)
		return 0;
	store->error = error == EDQUOT ? -ENOSPC : -error;
	if (!say(store, error, 0))
		snprintf(store->sentence, sizeof store->sentence, "bringing the capture's file to disk: %s",
			 strerror(error));
	return store->error;
}

int store_finish(struct store *store, uint64_t *ret_bytes, char warning[STORE_SENTENCE_BYTES])
{
	if (store->error)
		return store->error;
	/* Leaving exclusive locking and deleting the journal: a finished file is one file that anybody may read. */
	if (store_run(store, "PRAGMA locking_mode=NORMAL; PRAGMA journal_mode=DELETE; SELECT count(*) FROM meta"))
		return store->error;
	store_deinit(store);
	int fd = openat(store->folder, store->partial_name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return to_disk(store, errno);
	struct stat facts;
	int error = fsync(fd) || fstat(fd, &facts) ? errno : 0;
	close(fd);
	if (error == 0 && renameat(store->folder, store->partial_name, store->folder, store->final_name))
		error = errno;
	/* The file is whole and has its name. A machine that dies now may forget that; the next start's repairs would say so. */
	if (error == 0 && fsync(store->folder))
		snprintf(warning, STORE_SENTENCE_BYTES, "its folder cannot be brought to disk: %s", strerror(errno));
	if (error == 0)
		*ret_bytes = (uint64_t)facts.st_size;
	return to_disk(store, error);
}

void store_discard(struct store *store)
{
	store_deinit(store);
	store_release(store);
	if (!*store->partial_name)
		return;
	char journal[64];
	snprintf(journal, sizeof journal, "%s-journal", store->partial_name);
	unlinkat(store->folder, store->partial_name, 0);
	unlinkat(store->folder, journal, 0);
}
