/* reader.c - opens capture files: a read-only VFS on a descriptor, and the questions that every view asks. Each reader
 * belongs to one thread at a time; the VFS itself has no state but its registration. */
#include "reader.h"

#include "proto/version.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VFS_NAME "profd-descriptor"
/* Pages that SQLite keeps of one file, in KiB: a scan reads each page once, lookups need the top of their trees. */
#define CACHE_KIB 4096

struct reader_text {
	struct reader_text *next;
	char text[];
};

struct descriptor_file {
	sqlite3_file base;
	int fd;
};

static int file_close(sqlite3_file *file)
{
	(void)file; /* the descriptor is the reader's */
	return SQLITE_OK;
}

static int file_read(sqlite3_file *file, void *bytes, int amount, sqlite3_int64 offset)
{
	const struct descriptor_file *f = (const struct descriptor_file *)file;
	size_t have = 0, want = (size_t)amount;
	while (have < want) {
		ssize_t n = pread(f->fd, (char *)bytes + have, want - have, offset + (off_t)have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return SQLITE_IOERR_READ;
		if (n == 0) {
			memset((char *)bytes + have, 0, want - have);
			return SQLITE_IOERR_SHORT_READ;
		}
		have += (size_t)n;
	}
	return SQLITE_OK;
}

static int file_write(sqlite3_file *file, const void *bytes, int amount, sqlite3_int64 offset)
{
	(void)file, (void)bytes, (void)amount, (void)offset;
	return SQLITE_READONLY;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	(void)file, (void)size;
	return SQLITE_READONLY;
}

static int file_number(sqlite3_file *file, int flags)
{
	(void)file, (void)flags;
	return SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
	struct stat st;
	if (fstat(((const struct descriptor_file *)file)->fd, &st) < 0)
		return SQLITE_IOERR_FSTAT;
	*ret_size = st.st_size;
	return SQLITE_OK;
}

static int file_unlock(sqlite3_file *file, int level)
{
	(void)file, (void)level;
	return SQLITE_OK;
}

static int file_reserved(sqlite3_file *file, int *ret_reserved)
{
	(void)file;
	*ret_reserved = 0;
	return SQLITE_OK;
}

static int file_control(sqlite3_file *file, int operation, void *argument)
{
	(void)file, (void)operation, (void)argument;
	return SQLITE_NOTFOUND;
}

static int file_sector(sqlite3_file *file)
{
	(void)file;
	return 4096;
}

/* A finished capture never changes: no locks to take, no journal to look for. */
static int file_device(sqlite3_file *file)
{
	(void)file;
	return SQLITE_IOCAP_IMMUTABLE;
}

static const sqlite3_io_methods file_methods = {
	.iVersion = 1,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_number,
	.xFileSize = file_size,
	.xLock = file_unlock,
	.xUnlock = file_unlock,
	.xCheckReservedLock = file_reserved,
	.xFileControl = file_control,
	.xSectorSize = file_sector,
	.xDeviceCharacteristics = file_device,
};

/* The main file is named by its descriptor's number; everything else (a sorter's temporary files) is the default VFS's. */
static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
	sqlite3_vfs *system = vfs->pAppData;
	if (!(flags & SQLITE_OPEN_MAIN_DB))
		return system->xOpen(system, name, file, flags, ret_flags);
	char *end;
	long fd = name ? strtol(name, &end, 10) : -1;
	if (fd < 0)
		return SQLITE_CANTOPEN;
	struct descriptor_file *f = (struct descriptor_file *)file;
	f->base.pMethods = &file_methods;
	f->fd = (int)fd;
	if (ret_flags)
		*ret_flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB;
	return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_directory)
{
	sqlite3_vfs *system = vfs->pAppData;
	return system->xDelete(system, name, sync_directory);
}

/* Files beside the main one would belong to somebody else: there are none. */
static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret_exists)
{
	(void)vfs, (void)name, (void)flags;
	*ret_exists = 0;
	return SQLITE_OK;
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int bytes, char *ret_path)
{
	(void)vfs;
	sqlite3_snprintf(bytes, ret_path, "%s", name);
	return SQLITE_OK;
}

static sqlite3_vfs descriptor_vfs;
static int vfs_error = SQLITE_ERROR;

static void vfs_register(void)
{
	sqlite3_vfs *system = sqlite3_vfs_find(NULL);
	if (!system)
		return;
	descriptor_vfs = *system;
	descriptor_vfs.iVersion = 1;
	descriptor_vfs.pNext = NULL;
	descriptor_vfs.zName = VFS_NAME;
	descriptor_vfs.pAppData = system;
	if (descriptor_vfs.szOsFile < (int)sizeof(struct descriptor_file))
		descriptor_vfs.szOsFile = (int)sizeof(struct descriptor_file);
	descriptor_vfs.xOpen = vfs_open;
	descriptor_vfs.xDelete = vfs_delete;
	descriptor_vfs.xAccess = vfs_access;
	descriptor_vfs.xFullPathname = vfs_full_path;
	vfs_error = sqlite3_vfs_register(&descriptor_vfs, 0);
}

/* Opens r->fd, with nothing checked. */
static int open_database(struct reader *r)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, vfs_register);
	if (vfs_error != SQLITE_OK)
		return -ENOMEM;
	char name[24];
	snprintf(name, sizeof name, "%d", r->fd);
	/* NOMUTEX: a reader belongs to one thread at a time. */
	int error = sqlite3_open_v2(name, &r->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, VFS_NAME);
	if (error != SQLITE_OK)
		return error == SQLITE_NOMEM ? -ENOMEM : -EIO;
	char pragma[64];
	snprintf(pragma, sizeof pragma, "PRAGMA cache_size = -%d", CACHE_KIB);
	sqlite3_exec(r->db, pragma, NULL, NULL, NULL);
	/* The file's own views and triggers must not reach functions with side effects. */
	sqlite3_db_config(r->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	return 0;
}

static int check_capture(const struct reader *r, char *why, size_t why_bytes)
{
	sqlite3_stmt *statement;
	if (sqlite3_prepare_v2(r->db, "PRAGMA user_version", -1, &statement, NULL) != SQLITE_OK) {
		snprintf(why, why_bytes, "this is not a capture file (%s)", sqlite3_errmsg(r->db));
		return -EINVAL;
	}
	int64_t version = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : -1;
	sqlite3_finalize(statement);
	if (version > CAPTURE_SCHEMA_VERSION) {
		snprintf(why, why_bytes,
			 "the capture was written by a newer profd (schema %" PRId64
			 ", this one reads %d): use that release",
			 version, CAPTURE_SCHEMA_VERSION);
		return -ENOTSUP;
	}
	if (version < 1 || reader_meta_int(r, "schema", -1) != version) {
		snprintf(why, why_bytes, "this is not a capture file of profd");
		return -EINVAL;
	}
	/* `ingested` is dropped when a capture is finished. */
	if (reader_count(r, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'ingested'", 1) != 0) {
		snprintf(why, why_bytes, "the capture is not finished");
		return -EINVAL;
	}
	return 0;
}

int reader_open(struct reader *r, int fd, char *why, size_t why_bytes)
{
	*r = (struct reader){.fd = fd};
	int error = open_database(r);
	if (error)
		snprintf(why, why_bytes, "cannot open the capture: %s", strerror(-error));
	else
		error = check_capture(r, why, why_bytes);
	if (error)
		reader_close(r);
	return error;
}

int reader_clone(struct reader *ret_clone, const struct reader *r)
{
	*ret_clone = (struct reader){.fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 3)};
	if (ret_clone->fd < 0) {
		int error = -errno;
		*ret_clone = (struct reader){0};
		return error;
	}
	int error = open_database(ret_clone);
	if (error)
		reader_close(ret_clone);
	return error;
}

void reader_close(struct reader *r)
{
	if (r->db) {
		sqlite3_close(r->db);
		close(r->fd);
	} else if (r->fd > 0) {
		close(r->fd);
	}
	while (r->texts) {
		struct reader_text *next = r->texts->next;
		free(r->texts);
		r->texts = next;
	}
	*r = (struct reader){0};
}

/* Runs the question for one key; NULL, or a statement that stands on the answer. */
static sqlite3_stmt *meta_find(const struct reader *r, const char *key)
{
	sqlite3_stmt *statement;
	if (sqlite3_prepare_v2(r->db, "SELECT value FROM meta WHERE key = ?", -1, &statement, NULL) != SQLITE_OK)
		return NULL;
	sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
	if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL)
		return statement;
	sqlite3_finalize(statement);
	return NULL;
}

int64_t reader_meta_int(const struct reader *r, const char *key, int64_t missing)
{
	sqlite3_stmt *statement = meta_find(r, key);
	if (!statement)
		return missing;
	int64_t value = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return value;
}

const char *reader_meta_text(struct reader *r, const char *key)
{
	sqlite3_stmt *statement = meta_find(r, key);
	if (!statement)
		return NULL;
	const unsigned char *text = sqlite3_column_text(statement, 0);
	size_t bytes = (size_t)sqlite3_column_bytes(statement, 0);
	struct reader_text *kept = text ? malloc(sizeof *kept + bytes + 1) : NULL;
	if (kept) {
		memcpy(kept->text, text, bytes);
		kept->text[bytes] = '\0';
		kept->next = r->texts;
		r->texts = kept;
	}
	sqlite3_finalize(statement);
	return kept ? kept->text : NULL;
}

int64_t reader_count(const struct reader *r, const char *sql, int64_t missing)
{
	sqlite3_stmt *statement;
	if (sqlite3_prepare_v2(r->db, sql, -1, &statement, NULL) != SQLITE_OK)
		return missing;
	int64_t value = missing;
	if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL)
		value = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return value;
}
