/* reader.c - opens capture files, and the questions that every view asks. Each reader belongs to one thread at a time. */
#include "reader.h"

#include "schema.h"

#include "proto/version.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Pages that SQLite keeps of one file, in KiB: a scan reads each page once, lookups need the top of their trees. */
#define CACHE_KIB 4096

struct reader_text {
	struct reader_text *next;
	char text[];
};

/* Opens r->fd, with nothing checked but its bounds. */
static int open_database(struct reader *r)
{
	int error = descriptor_open(r->file, r->fd, &r->db);
	if (error)
		return error;
	/* Neither the file's schema nor the cells of its pages are trusted. */
	sqlite3_db_config(r->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(r->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(r->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	bounds_watch(r->bounds, r->db);
	char pragmas[96];
	snprintf(pragmas, sizeof pragmas, "PRAGMA cell_size_check = ON; PRAGMA cache_size = -%d", CACHE_KIB);
	sqlite3_exec(r->db, pragmas, NULL, NULL, NULL);
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
	if (version < 1) {
		snprintf(why, why_bytes, "this is not a capture file of profd");
		return -EINVAL;
	}
	/* Before anything is read from its tables. */
	int error = schema_check(r->db, version, why, why_bytes);
	if (error == -EIO)
		reader_why(r, why, why_bytes);
	if (error)
		return error;
	if (reader_meta_int(r, "schema", -1) != version) {
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

/* Bytes that can be read. A sparse file says that it is larger than what was written; a file system that compresses
 * takes less room than that. */
static int64_t file_bytes(const struct stat *file)
{
	int64_t most = (int64_t)1 << 44, written = most;
	if (file->st_blocks < written / (512ll * 16))
		written = file->st_blocks * 512 * 16 + (64 << 20);
	if (file->st_size < written)
		written = file->st_size;
	return written;
}

int reader_open(struct reader *r, int fd, char *why, size_t why_bytes)
{
	struct stat file;
	int error = 0;
	*r = (struct reader){.fd = fd};
	if (fstat(fd, &file) < 0)
		error = -errno;
	else if (!S_ISREG(file.st_mode))
		error = -EINVAL;
	if (error == -EINVAL) {
		snprintf(why, why_bytes, "this is not a capture file of profd but %s",
			 S_ISDIR(file.st_mode)	  ? "a folder"
			 : S_ISFIFO(file.st_mode) ? "a pipe"
						  : "a device or socket");
		reader_close(r);
		return error;
	}
	if (!error) {
		r->bounds = bounds_new(file_bytes(&file));
		r->file = r->bounds ? descriptor_new(r->bounds) : NULL;
		r->owner = true;
		error = r->file ? open_database(r) : -ENOMEM;
	}
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
	*ret_clone = (struct reader){.fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 3), .file = r->file, .bounds = r->bounds};
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
	if (r->owner) {
		descriptor_free(r->file);
		bounds_free(r->bounds);
	}
	while (r->texts) {
		struct reader_text *next = r->texts->next;
		free(r->texts);
		r->texts = next;
	}
	*r = (struct reader){0};
}

void reader_why(const struct reader *r, char *why, size_t why_bytes)
{
	if (bounds_exceeded(r->bounds))
		snprintf(why, why_bytes,
			 "the capture file takes more work than one of its size can: it is damaged, or was made to be "
			 "endless; it is not read any further");
	else
		snprintf(why, why_bytes, "the capture file cannot be read: %s; it may be damaged, record another",
			 sqlite3_errmsg(r->db));
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
