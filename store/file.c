/* file.c - see file.h. */
#include "file.h"
#include "proto/base/space.h"
#include "proto/version.h"
#include "upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Derive and summary need this room even where the rest of the disk is full. 512 KiB: totals of 5,000 names and
 * steps, a summary of 48 KiB, and the journal's copies of pages. */
#define RESERVE_BYTES (512 << 10)

/* Says in words what the disk reported. False: the disk is not the cause. */
static bool say(struct store *store, int cause, uint64_t needed)
{
	if (store->elsewhere && cause) {
		snprintf(store->sentence, sizeof store->sentence, "%.300s cannot be written: %s", store->path,
			 strerror(cause));
		return true;
	}
	char folder[sizeof store->path];
	text_copy(folder, sizeof folder, store->path);
	char *slash = strrchr(folder, '/');
	if (slash)
		*slash = 0;
	/* If SQLite cannot open a file for writing, it tries to read it, and reports that error instead. */
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

int store_step(struct store *store, sqlite3_stmt *statement)
{
	int code = sqlite3_step(statement);
	if (code != SQLITE_DONE)
		store_fail(store, "writing");
	sqlite3_reset(statement);
	return store->error;
}

/* So many instructions of SQLite's machine take a millisecond or less. */
#define LOOK_EVERY 10000

bool store_over(struct store *store)
{
	if (!store->error && store->watch)
		store->error = store->watch->look(store->watch->context, store->doing, store->sentence);
	return store->error != 0;
}

static int look(void *store)
{
	return store_over(store);
}

void store_watch_begin(struct store *store, const struct store_watch *watch)
{
	store->watch = watch;
	store->doing = "";
	if (store->db)
		sqlite3_progress_handler(store->db, LOOK_EVERY, watch ? look : NULL, store);
}

void store_watch_end(struct store *store)
{
	store_watch_begin(store, NULL);
}

void store_doing(struct store *store, const char *doing)
{
	store->doing = doing;
}

static void name_files(struct store *store, int folder, const char *folder_path, uint64_t number)
{
	store->folder = folder;
	snprintf(store->partial_name, sizeof store->partial_name, "%" PRIu64 ".partial", number);
	snprintf(store->final_name, sizeof store->final_name, "%" PRIu64 ".db", number);
	snprintf(store->path, sizeof store->path, "%s/%s", folder_path, store->partial_name);
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

int file_without_disk(struct store *store)
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
	/* A file system that cannot reserve room is used all the same. */
	if (error == 0 || error == EOPNOTSUPP || error == ENOSYS)
		return 0;
	file_release(store);
	store->error = -error;
	if (error == ENOSPC || error == EDQUOT)
		store->error = -ENOSPC;
	if (!say(store, error, RESERVE_BYTES))
		snprintf(store->sentence, sizeof store->sentence, "the store cannot be written: %s", strerror(error));
	return store->error;
}

void file_release(struct store *store)
{
	char name[64];
	reserve_name(store, name);
	if (store->reserved)
		unlinkat(store->folder, name, 0);
	store->reserved = false;
}

static int fill(struct store *store)
{
	store_run(store, "BEGIN IMMEDIATE");
	store_make_tables(store);
	prepare_all(store);
	return store_run(store, "COMMIT");
}

int file_create(struct store *store, int folder, const char *folder_path, uint64_t number)
{
	name_files(store, folder, folder_path, number);
	if (reserve(store) || open_database(store, SQLITE_OPEN_CREATE))
		return store->error;
	fchmodat(folder, store->partial_name, 0640, 0);
	return fill(store);
}

static int cannot(struct store *store, const char *path, int error)
{
	store->error = -error;
	snprintf(store->sentence, sizeof store->sentence, "%.300s cannot be made: %s", path, strerror(error));
	return store->error;
}

/* Splits a path into the folder, which is opened, and the file's names in it. */
static int name_files_at(struct store *store, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char folder[PATH_MAX] = ".";
	if (!*name || strlen(name) > NAME_MAX - strlen(".partial") || strlen(path) >= PATH_MAX - strlen(".partial"))
		return cannot(store, path, *name ? ENAMETOOLONG : EISDIR);
	if (slash)
		snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
	store->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store->folder < 0)
		return cannot(store, path, errno);
	store->elsewhere = true;
	text_copy(store->final_name, sizeof store->final_name, name);
	snprintf(store->partial_name, sizeof store->partial_name, "%.*s.partial", NAME_MAX - 8, name);
	snprintf(store->path, sizeof store->path, "%.*s.partial", PATH_MAX - 9, path);
	return 0;
}

void file_leave(struct store *store)
{
	if (store->elsewhere)
		close(store->folder);
	store->elsewhere = false;
}

int file_create_at(struct store *store, const char *path)
{
	if (name_files_at(store, path))
		return store->error;
	int fd = -1, error = EEXIST;
	bool taken = faccessat(store->folder, store->final_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	/* A partial file of this name belongs to another store, or was left by a program that was killed. */
	if (!taken) {
		fd = openat(store->folder, store->partial_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			    0666);
		error = errno;
	}
	if (fd < 0) {
		*store->partial_name = 0;
		return cannot(store, taken ? path : store->path, error);
	}
	close(fd);
	return open_database(store, 0) ? store->error : fill(store);
}

int file_open(struct store *store, int folder, const char *folder_path, uint64_t number)
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

void file_close(struct store *store)
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

/* A file outside of the daemon's store replaces no other file, if the file system can promise that. */
static int name_finally(struct store *store)
{
#define NO_REPLACE 1u
	if (store->elsewhere) {
		if (syscall(SYS_renameat2, store->folder, store->partial_name, store->folder, store->final_name,
			    NO_REPLACE) == 0)
			return 0;
		if (errno != EINVAL && errno != ENOSYS)
			return errno;
	}
	return renameat(store->folder, store->partial_name, store->folder, store->final_name) ? errno : 0;
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

/* Uses SQLite's own descriptor: there may be no other one left. */
static int sync_data(struct store *store, uint64_t *ret_bytes)
{
	sqlite3_file *file = NULL;
	sqlite3_int64 bytes = 0;
	sqlite3_file_control(store->db, NULL, SQLITE_FCNTL_FILE_POINTER, &file);
	if (file->pMethods->xSync(file, SQLITE_SYNC_NORMAL) || file->pMethods->xFileSize(file, &bytes)) {
		int error = 0;
		file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &error);
		return error ? error : EIO;
	}
	*ret_bytes = (uint64_t)bytes;
	return 0;
}

int file_publish(struct store *store, uint64_t *ret_bytes, char warning[STORE_SENTENCE_BYTES])
{
	if (store->error)
		return store->error;
	/* Ends exclusive locking and deletes the journal: a finished file is one file that anybody may read. */
	if (store_run(store, "PRAGMA locking_mode=NORMAL; PRAGMA journal_mode=DELETE; SELECT count(*) FROM meta"))
		return store->error;
	int error = sync_data(store, ret_bytes);
	file_close(store);
	if (error == 0)
		error = name_finally(store);
	/* The file is whole and has its name. If the machine dies now, it may forget the name; the repairs of the
	 * next start would say so. */
	if (error == 0 && fsync(store->folder))
		snprintf(warning, STORE_SENTENCE_BYTES, "its folder cannot be brought to disk: %s", strerror(errno));
	return to_disk(store, error);
}

int file_rename_whole(struct store *store, int folder, const char *folder_path, uint64_t number)
{
	uint64_t bytes;
	char warning[STORE_SENTENCE_BYTES] = ""; /* not shown: the next start would find the same */
	name_files(store, folder, folder_path, number);
	bool whole = false;
	if (!open_database(store, 0)) {
		/* The transaction that wrote `derive` has removed `ingested`. */
		sqlite3_stmt *statement =
			store_prepare(store, "SELECT 1 FROM meta WHERE key = 'derive' AND NOT EXISTS (SELECT 1 FROM "
					     "sqlite_master WHERE name = 'ingested')");
		whole = statement && sqlite3_step(statement) == SQLITE_ROW;
		sqlite3_finalize(statement);
	}
	int error = whole ? file_publish(store, &bytes, warning) : 0;
	file_close(store);
	return error ? error : whole;
}

void file_discard(struct store *store)
{
	file_close(store);
	file_release(store);
	if (!*store->partial_name)
		return;
	char journal[NAME_MAX + 16];
	snprintf(journal, sizeof journal, "%s-journal", store->partial_name);
	unlinkat(store->folder, store->partial_name, 0);
	unlinkat(store->folder, journal, 0);
	*store->partial_name = 0;
}
