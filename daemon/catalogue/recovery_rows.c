/* recovery_rows.c - see recovery_rows.h. Before the catalogue's thread exists; no locks. */
#include "recovery_rows.h"
#include "catalogue.h"
#include "sql.h"
#include "proto/base/clock.h"
#include "proto/version.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void catalogue_recovery_begin(struct catalogue *catalogue)
{
	catalogue_run(catalogue, "BEGIN");
}

void catalogue_recovery_end(struct catalogue *catalogue)
{
	if (!sqlite3_get_autocommit(catalogue->db) && catalogue_run(catalogue, "COMMIT"))
		sqlite3_exec(catalogue->db, "ROLLBACK", NULL, NULL, NULL);
}

static void read_row(sqlite3_stmt *s, void *row)
{
	*(struct catalogue_row *)row = (struct catalogue_row){.number = catalogue_column_number(s, 0),
							      .bytes = catalogue_column_number(s, 1),
							      .finished = sqlite3_column_int(s, 2) != 0,
							      .failed = sqlite3_column_int(s, 3) != 0};
}

int catalogue_rows(struct catalogue *catalogue, struct catalogue_row **ret, size_t *ret_count)
{
	int error;
	*ret = catalogue_collect(catalogue,
				 "SELECT id, bytes, finished IS NOT NULL AND status IN ('complete', 'incomplete', "
				 "'failed'), status = 'failed' FROM captures ORDER BY id",
				 sizeof **ret, read_row, ret_count, &error);
	return error;
}

static uint64_t big_endian(const unsigned char *bytes, unsigned n)
{
	uint64_t value = 0;
	for (unsigned i = 0; i < n; i++)
		value = value << 8 | bytes[i];
	return value;
}

/* SQLite's file header: magic, size of a page, number of pages. */
static int check_header(int fd, uint64_t size, char *why, size_t why_bytes)
{
	unsigned char header[100];
	ssize_t n = pread(fd, header, sizeof header, 0);
	if (n < 0) {
		snprintf(why, why_bytes, "it cannot be read: %s", strerror(errno));
		return -EPROTO;
	}
	if (n < (ssize_t)sizeof header || memcmp(header, "SQLite format 3", 16) != 0) {
		snprintf(why, why_bytes, "it is not a SQLite database");
		return -EPROTO;
	}
	uint64_t page = big_endian(header + 16, 2), pages = big_endian(header + 28, 4);
	page = page == 1 ? 65536 : page;
	if (size < page * pages) {
		snprintf(why, why_bytes, "%" PRIu64 " of its %" PRIu64 " bytes are missing", page * pages - size,
			 page * pages);
		return -EPROTO;
	}
	return 0;
}

int catalogue_check_file(const struct catalogue *catalogue, uint64_t capture, struct stat *ret, char *why,
			 size_t why_bytes)
{
	char name[40];
	snprintf(name, sizeof name, "%" PRIu64 ".db", capture);
	int fd = openat(catalogue->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), error = 0;
	if (fd < 0 || fstat(fd, ret) || !S_ISREG(ret->st_mode)) {
		snprintf(why, why_bytes, "it cannot be read: %s",
			 fd < 0 ? strerror(errno) : "it is not a regular file");
		error = -EPROTO;
	} else {
		error = check_header(fd, (uint64_t)ret->st_size, why, why_bytes);
	}
	if (fd >= 0)
		close(fd);
	return error;
}

struct file {
	sqlite3 *db;
	sqlite3_stmt *meta;
};

static sqlite3_stmt *find(struct file *file, const char *key)
{
	sqlite3_reset(file->meta);
	sqlite3_bind_text(file->meta, 1, key, -1, SQLITE_STATIC);
	return sqlite3_step(file->meta) == SQLITE_ROW ? file->meta : NULL;
}

static void text(struct file *file, const char *key, char *to, size_t to_bytes)
{
	sqlite3_stmt *s = find(file, key);
	const char *value = s ? (const char *)sqlite3_column_text(s, 0) : NULL;
	text_copy(to, to_bytes, value ? value : "");
	text_clean(to, strlen(to));
}

static uint64_t number(struct file *file, const char *key)
{
	sqlite3_stmt *s = find(file, key);
	sqlite3_int64 value = s ? sqlite3_column_int64(s, 0) : 0;
	return value > 0 ? (uint64_t)value : 0;
}

static int32_t rank(struct file *file, const char *key)
{
	sqlite3_stmt *s = find(file, key);
	return s ? sqlite3_column_int(s, 0) : -1;
}

/* "17", "u17", "t17" or "ut17". */
static uint64_t id(struct file *file, const char *key)
{
	char value[ID_BYTES];
	text(file, key, value, sizeof value);
	return strtoull(value + strspn(value, "ut"), NULL, 10);
}

static uint64_t one_number(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *s = NULL;
	uint64_t value = 0;
	if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
		value = catalogue_column_number(s, 0);
	sqlite3_finalize(s);
	return value;
}

/* The median, as the store computes it for the summary when it leaves no steps out; 0 if a file that is not ours has
 * negative durations. */
#define MEDIAN_STEP                                                                                                        \
	"SELECT max(avg(duration), 0) FROM (SELECT duration FROM steps ORDER BY duration LIMIT 2 - (SELECT count(*) FROM " \
	"steps) % 2 OFFSET (SELECT (count(*) - 1) / 2 FROM steps))"

static int read_file(struct file *file, struct capture_facts *ret, char *why, size_t why_bytes)
{
	struct identity *who = &ret->who;
	char word[32];
	uint64_t version = one_number(file->db, "PRAGMA user_version");
	if (version > CAPTURE_SCHEMA_VERSION) {
		snprintf(why, why_bytes, "a newer release of profd wrote it (schema %" PRIu64 ", this one knows %d)",
			 version, CAPTURE_SCHEMA_VERSION);
		return -EOPNOTSUPP;
	}
	if (sqlite3_prepare_v2(file->db, "SELECT value FROM meta WHERE key = ?", -1, &file->meta, NULL)) {
		snprintf(why, why_bytes, "%s", sqlite3_errmsg(file->db));
		return -EPROTO;
	}
	text(file, "status", word, sizeof word);
	ret->status = catalogue_status_from_word(word);
	if (ret->status != CAPTURE_COMPLETE && ret->status != CAPTURE_INCOMPLETE) {
		snprintf(why, why_bytes, "it does not say that it is a finished capture");
		return -EPROTO;
	}
	if (id(file, "capture_id") != ret->number) {
		text(file, "capture_id", word, sizeof word);
		snprintf(why, why_bytes, "it holds capture %s", word);
		return -EPROTO;
	}
	ret->trigger = id(file, "trigger_id");
	ret->cycle = number(file, "cycle");
	who->pid = (pid_t)number(file, "pid");
	who->uid = (uid_t)number(file, "uid");
	who->start_time = number(file, "start_time");
	who->rank = rank(file, "rank");
	who->local_rank = rank(file, "local_rank");
	who->world_size = rank(file, "world_size");
	text(file, "pids", who->pids, sizeof who->pids);
	text(file, "host", who->host, sizeof who->host);
	text(file, "name", who->name, sizeof who->name);
	text(file, "command", who->command, sizeof who->command);
	text(file, "job", who->job, sizeof who->job);
	text(file, "label", ret->label, sizeof ret->label);
	text(file, "reason", ret->reason, sizeof ret->reason);
	text(file, "reason_code", word, sizeof word);
	ret->reason_code = catalogue_reason_from_word(word);
	ret->started = number(file, "started");
	ret->steps_wanted = number(file, "steps_wanted");
	ret->events = number(file, "events");
	ret->lost = number(file, "lost");
	ret->simulated = number(file, "simulated") != 0;
	ret->steps_recorded = one_number(file->db, "SELECT count(*) FROM steps");
	ret->step_ns = number(file, "step_median");
	if (!ret->step_ns)
		ret->step_ns = one_number(file->db, MEDIAN_STEP);
	return 0;
}

int catalogue_from_file(struct catalogue *catalogue, uint64_t capture, struct capture_facts *ret, char *why,
			size_t why_bytes)
{
	struct stat facts;
	memset(ret, 0, sizeof *ret);
	ret->number = capture;
	int error = catalogue_check_file(catalogue, capture, &facts, why, why_bytes);
	if (error)
		return error;
	char path[560];
	snprintf(path, sizeof path, "%s/%" PRIu64 ".db", catalogue->folder_path, capture);
	struct file file = {0};
	if (sqlite3_open_v2(path, &file.db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX, NULL)) {
		snprintf(why, why_bytes, "it cannot be opened: %s", sqlite3_errmsg(file.db));
		error = -EPROTO;
	} else {
		error = read_file(&file, ret, why, why_bytes);
	}
	sqlite3_finalize(file.meta);
	sqlite3_close(file.db);
	ret->bytes = (uint64_t)facts.st_size;
	ret->finished = (uint64_t)facts.st_mtim.tv_sec * 1000000000u + (uint64_t)facts.st_mtim.tv_nsec;
	return error;
}

int catalogue_spoil(struct catalogue *catalogue, uint64_t capture, const char *reason)
{
	sqlite3_stmt *s =
		catalogue_prepare(catalogue, "UPDATE captures SET status = 'failed', reason = ?, reason_code = ?, "
					     "finished = coalesce(finished, ?), bytes = 0 WHERE id = ?");
	if (!s)
		return -EIO;
	sqlite3_bind_text(s, 1, reason, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, 2, cancel_reason_word(REASON_DAEMON), -1, SQLITE_STATIC);
	sqlite3_bind_int64(s, 3, (int64_t)clock_realtime());
	sqlite3_bind_int64(s, 4, (int64_t)capture);
	return catalogue_finish(catalogue, s);
}

int catalogue_close_lost(struct catalogue *catalogue, bool (*has_file)(void *context, uint64_t number), void *context)
{
	struct catalogue_row *rows;
	size_t count;
	int error = catalogue_rows(catalogue, &rows, &count);
	if (error)
		return error;
	for (size_t i = 0; i < count && !error; i++)
		if (!rows[i].finished && !has_file(context, rows[i].number))
			error = catalogue_spoil(catalogue, rows[i].number,
						"the daemon ended before anything of it was stored");
	free(rows);
	return error;
}
