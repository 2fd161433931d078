/* deleted.c - see deleted.h. Thread: the catalogue's. No locks. */
#include "deleted.h"
#include "catalogue.h"
#include "sql.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_kept(sqlite3_stmt *s, void *row)
{
	*(struct kept *)row = (struct kept){.number = catalogue_column_number(s, 0),
					    .uid = (uid_t)catalogue_column_number(s, 1),
					    .bytes = catalogue_column_number(s, 2),
					    .finished = catalogue_column_number(s, 3),
					    .pinned = sqlite3_column_int(s, 4) != 0};
}

int catalogue_kept(struct catalogue *catalogue, struct kept **ret, size_t *ret_count)
{
	/* All these columns are in the index captures_kept. */
	int error;
	*ret = catalogue_collect(catalogue,
				 "SELECT id, uid, bytes, finished, pinned FROM captures WHERE finished IS NOT NULL "
				 "ORDER BY finished, id",
				 sizeof **ret, read_kept, ret_count, &error);
	return error;
}

uint64_t catalogue_oldest(struct catalogue *catalogue)
{
	return catalogue_number(catalogue,
				"SELECT finished FROM captures WHERE finished IS NOT NULL AND pinned = 0 ORDER BY "
				"finished LIMIT 1");
}

int catalogue_pin(struct catalogue *catalogue, uint64_t number, bool pinned)
{
	sqlite3_stmt *s = catalogue_prepare(catalogue, "UPDATE captures SET pinned = ? WHERE id = ?");
	if (!s)
		return -EIO;
	sqlite3_bind_int(s, 1, pinned);
	sqlite3_bind_int64(s, 2, (int64_t)number);
	return catalogue_finish(catalogue, s);
}

int catalogue_forget(struct catalogue *catalogue, uint64_t number, const uid_t *by, const char *reason)
{
	/* No two have the same time: a list's next page begins at the time of its last row. */
	uint64_t at = clock_realtime();
	if (at <= catalogue->deleted_at)
		at = catalogue->deleted_at + 1;
	catalogue->deleted_at = at;
	sqlite3_stmt *s = catalogue_prepare(
		catalogue,
		"INSERT OR REPLACE INTO deleted (id, uid, pid, host, name, job, rank, label, status, started, "
		"finished, bytes, at, by_uid, reason, pids) SELECT id, uid, pid, host, name, job, rank, label, status, "
		"started, finished, bytes, ?2, ?3, ?4, pids FROM captures WHERE id = ?1");
	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, (int64_t)number);
	sqlite3_bind_int64(s, 2, (int64_t)at);
	if (by)
		sqlite3_bind_int64(s, 3, *by);
	sqlite3_bind_text(s, 4, reason, -1, SQLITE_STATIC);
	int error = catalogue_finish(catalogue, s);
	s = error ? NULL : catalogue_prepare(catalogue, "DELETE FROM captures WHERE id = ?");
	if (!s)
		return error ? error : -EIO;
	sqlite3_bind_int64(s, 1, (int64_t)number);
	return catalogue_finish(catalogue, s);
}

int catalogue_remove(struct catalogue *catalogue, uint64_t number, const uid_t *by, const char *reason)
{
	/* The file goes first: on a full disk this makes the room that deleting the row needs. A client that reads the file has
	 * a descriptor, and can read on. */
	char name[40];
	snprintf(name, sizeof name, "%" PRIu64 ".db", number);
	if (unlinkat(catalogue->folder, name, 0) && errno != ENOENT) {
		int error = -errno;
		log_line("cannot delete %s/%s: %s", catalogue->folder_path, name, strerror(-error));
		return error;
	}
	return catalogue_forget(catalogue, number, by, reason);
}

int catalogue_trim_deleted(struct catalogue *catalogue, uint64_t lines)
{
	uint64_t count = catalogue_number(catalogue, "SELECT count(*) FROM deleted");
	if (count <= lines)
		return 0;
	sqlite3_stmt *s = catalogue_prepare(
		catalogue, "DELETE FROM deleted WHERE id IN (SELECT id FROM deleted ORDER BY at LIMIT ?)");
	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, (int64_t)(count - lines));
	return catalogue_finish(catalogue, s);
}

#define DELETED_ROW                                                                                                    \
	"id, uid, pid, host, name, job, rank, label, status, started, finished, bytes, at, by_uid, reason, pids"

static void read_deleted(sqlite3_stmt *s, struct deleted_facts *ret)
{
	memset(ret, 0, sizeof *ret);
	ret->number = catalogue_column_number(s, 0);
	ret->uid = (uid_t)catalogue_column_number(s, 1);
	ret->pid = (pid_t)sqlite3_column_int64(s, 2);
	catalogue_column_text(s, 3, ret->host, sizeof ret->host);
	catalogue_column_text(s, 4, ret->name, sizeof ret->name);
	catalogue_column_text(s, 5, ret->job, sizeof ret->job);
	ret->rank = catalogue_column_rank(s, 6);
	catalogue_column_text(s, 7, ret->label, sizeof ret->label);
	ret->status = catalogue_status_from_word((const char *)sqlite3_column_text(s, 8));
	ret->started = catalogue_column_number(s, 9);
	ret->finished = catalogue_column_number(s, 10);
	ret->bytes = catalogue_column_number(s, 11);
	ret->at = catalogue_column_number(s, 12);
	ret->by_daemon = sqlite3_column_type(s, 13) == SQLITE_NULL;
	ret->by = (uid_t)catalogue_column_number(s, 13);
	catalogue_column_text(s, 14, ret->reason, sizeof ret->reason);
	catalogue_column_text(s, 15, ret->pids, sizeof ret->pids);
	/* Looking up a user's name may need the network. On this thread the wait delays nobody. */
	user_name(ret->uid, ret->user, sizeof ret->user);
	if (!ret->by_daemon)
		user_name(ret->by, ret->by_user, sizeof ret->by_user);
}

int catalogue_list_deleted(struct catalogue *catalogue, const struct catalogue_filter *filter,
			   struct deleted_facts *rows, unsigned room)
{
	sqlite3_stmt *s = catalogue_prepare(catalogue, "SELECT " DELETED_ROW " FROM deleted WHERE " CATALOGUE_FILTER
						       " AND at < ?7 ORDER BY at DESC LIMIT ?8");
	if (!s)
		return -EIO;
	catalogue_bind_filter(s, filter, room);
	unsigned n = 0;
	while (n < room && sqlite3_step(s) == SQLITE_ROW)
		read_deleted(s, &rows[n++]);
	sqlite3_finalize(s);
	return (int)n;
}

int catalogue_get_deleted(struct catalogue *catalogue, uint64_t number, struct deleted_facts *ret)
{
	sqlite3_stmt *s = catalogue_prepare(catalogue, "SELECT " DELETED_ROW " FROM deleted WHERE id = ?");
	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, (int64_t)number);
	int found = sqlite3_step(s) == SQLITE_ROW;
	if (found)
		read_deleted(s, ret);
	sqlite3_finalize(s);
	return found;
}
