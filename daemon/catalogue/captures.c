/* captures.c - see captures.h. Thread: the catalogue's. No locks. */
#include "captures.h"
#include "catalogue.h"
#include "sql.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint64_t catalogue_last_capture(struct catalogue *catalogue)
{
	return catalogue_number(catalogue, "SELECT seq FROM sqlite_sequence WHERE name = 'captures'");
}

int catalogue_put_capture(struct catalogue *catalogue, const struct capture_facts *facts)
{
	sqlite3_stmt *s = catalogue_prepare(
		catalogue,
		"INSERT OR REPLACE INTO captures (id, trigger, cycle, pid, start_time, uid, host, name, command, job, "
		"rank, world_size, label, status, reason, started, finished, steps_wanted, steps_recorded, events, "
		"lost, bytes, step_ns, step_after, simulated, reason_code, pids, pinned) "
		"VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, (int64_t)facts->number);
	sqlite3_bind_int64(s, 2, (int64_t)facts->trigger);
	sqlite3_bind_int64(s, 3, (int64_t)facts->cycle);
	sqlite3_bind_int64(s, 4, facts->who.pid);
	sqlite3_bind_int64(s, 5, (int64_t)facts->who.start_time);
	sqlite3_bind_int64(s, 6, facts->who.uid);
	catalogue_bind_text(s, 7, facts->who.host);
	catalogue_bind_text(s, 8, facts->who.name);
	catalogue_bind_text(s, 9, facts->who.command);
	catalogue_bind_text(s, 10, facts->who.job);
	catalogue_bind_rank(s, 11, facts->who.rank);
	catalogue_bind_rank(s, 12, facts->who.world_size);
	catalogue_bind_text(s, 13, facts->label);
	sqlite3_bind_text(s, 14, capture_status_word(facts->status), -1, SQLITE_STATIC);
	catalogue_bind_text(s, 15, facts->reason);
	sqlite3_bind_int64(s, 16, (int64_t)facts->started);
	catalogue_bind_known(s, 17, facts->finished);
	sqlite3_bind_int64(s, 18, (int64_t)facts->steps_wanted);
	sqlite3_bind_int64(s, 19, (int64_t)facts->steps_recorded);
	sqlite3_bind_int64(s, 20, (int64_t)facts->events);
	sqlite3_bind_int64(s, 21, (int64_t)facts->lost);
	sqlite3_bind_int64(s, 22, (int64_t)facts->bytes);
	catalogue_bind_known(s, 23, facts->step_ns);
	catalogue_bind_known(s, 24, facts->step_after);
	sqlite3_bind_int(s, 25, facts->simulated);
	sqlite3_bind_text(s, 26, cancel_reason_word(facts->reason_code), -1, SQLITE_STATIC);
	catalogue_bind_text(s, 27, facts->who.pids);
	sqlite3_bind_int(s, 28, facts->pinned);
	return catalogue_finish(catalogue, s);
}

int catalogue_put_after(struct catalogue *catalogue, uint64_t number, uint64_t step_after)
{
	sqlite3_stmt *s = catalogue_prepare(catalogue, "UPDATE captures SET step_after = ? WHERE id = ?");
	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, (int64_t)(step_after & INT64_MAX));
	sqlite3_bind_int64(s, 2, (int64_t)number);
	return catalogue_finish(catalogue, s);
}

/* The columns of `captures` that read_row reads. */
#define ROW                                                                                                            \
	"id, trigger, cycle, pid, start_time, uid, host, name, command, job, rank, world_size, label, status, "        \
	"reason, started, finished, steps_wanted, steps_recorded, events, lost, bytes, step_ns, step_after, "          \
	"simulated, reason_code, pids, pinned"

static void read_row(sqlite3_stmt *s, struct capture_facts *ret)
{
	char status[32];
	memset(ret, 0, sizeof *ret);
	ret->number = catalogue_column_number(s, 0);
	ret->trigger = catalogue_column_number(s, 1);
	ret->cycle = catalogue_column_number(s, 2);
	ret->who.pid = (pid_t)sqlite3_column_int64(s, 3);
	ret->who.start_time = catalogue_column_number(s, 4);
	ret->who.uid = (uid_t)sqlite3_column_int64(s, 5);
	catalogue_column_text(s, 6, ret->who.host, sizeof ret->who.host);
	catalogue_column_text(s, 7, ret->who.name, sizeof ret->who.name);
	catalogue_column_text(s, 8, ret->who.command, sizeof ret->who.command);
	catalogue_column_text(s, 9, ret->who.job, sizeof ret->who.job);
	ret->who.rank = catalogue_column_rank(s, 10);
	ret->who.world_size = catalogue_column_rank(s, 11);
	ret->who.local_rank = -1;
	catalogue_column_text(s, 12, ret->label, sizeof ret->label);
	catalogue_column_text(s, 13, status, sizeof status);
	ret->status = catalogue_status_from_word(status);
	catalogue_column_text(s, 14, ret->reason, sizeof ret->reason);
	ret->started = catalogue_column_number(s, 15);
	ret->finished = catalogue_column_number(s, 16);
	ret->steps_wanted = catalogue_column_number(s, 17);
	ret->steps_recorded = catalogue_column_number(s, 18);
	ret->events = catalogue_column_number(s, 19);
	ret->lost = catalogue_column_number(s, 20);
	ret->bytes = catalogue_column_number(s, 21);
	ret->step_ns = catalogue_column_number(s, 22);
	ret->step_after = catalogue_column_number(s, 23);
	ret->simulated = sqlite3_column_int(s, 24) != 0;
	ret->reason_code = catalogue_reason_from_word((const char *)sqlite3_column_text(s, 25));
	catalogue_column_text(s, 26, ret->who.pids, sizeof ret->who.pids);
	ret->pinned = sqlite3_column_int(s, 27) != 0;
	/* Looking up a user's name may need the network. On this thread the wait delays nobody. */
	user_name(ret->who.uid, ret->who.user, sizeof ret->who.user);
}

int catalogue_get(struct catalogue *catalogue, uint64_t number, struct capture_facts *ret)
{
	sqlite3_stmt *s = catalogue_prepare(catalogue, "SELECT " ROW " FROM captures WHERE id = ?");
	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, (int64_t)number);
	int found = sqlite3_step(s) == SQLITE_ROW;
	if (found)
		read_row(s, ret);
	sqlite3_finalize(s);
	return found;
}

void catalogue_bind_filter(sqlite3_stmt *s, const struct catalogue_filter *filter, unsigned room)
{
	sqlite3_bind_int(s, 1, filter->all);
	sqlite3_bind_int64(s, 2, filter->uid);
	sqlite3_bind_int64(s, 3, filter->pid);
	sqlite3_bind_text(s, 4, filter->name, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, 5, filter->job, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, 6, filter->label, -1, SQLITE_STATIC);
	sqlite3_bind_int64(s, 7, (int64_t)filter->before);
	sqlite3_bind_int64(s, 8, room);
	sqlite3_bind_int64(s, 9, (int64_t)filter->trigger);
	/* In the form in which namespaces.c writes them. */
	char inner[40] = "";
	if (!filter->own)
		snprintf(inner, sizeof inner, " %" PRIu64 ":%d ", filter->pid_namespace, filter->pid);
	sqlite3_bind_text(s, 10, inner, -1, SQLITE_TRANSIENT);
}

int catalogue_list(struct catalogue *catalogue, const struct catalogue_filter *filter, struct capture_facts *rows,
		   unsigned room)
{
	sqlite3_stmt *s =
		catalogue_prepare(catalogue, "SELECT " ROW " FROM captures WHERE " CATALOGUE_FILTER
					     " AND id < ?7 AND (?9 = 0 OR trigger = ?9) ORDER BY id DESC LIMIT ?8");
	if (!s)
		return -EIO;
	catalogue_bind_filter(s, filter, room);
	unsigned n = 0;
	while (n < room && sqlite3_step(s) == SQLITE_ROW)
		read_row(s, &rows[n++]);
	sqlite3_finalize(s);
	return (int)n;
}

void catalogue_each_owner(struct catalogue *catalogue, void (*callback)(void *context, const struct usage_owner *owner),
			  void *context)
{
	sqlite3_stmt *s = catalogue_prepare(
		catalogue, "SELECT uid, count(*), sum(bytes), total(pinned), sum(bytes * pinned) FROM captures WHERE "
			   "finished IS NOT NULL GROUP BY uid");
	while (s && sqlite3_step(s) == SQLITE_ROW) {
		struct usage_owner owner = {(uid_t)catalogue_column_number(s, 0), catalogue_column_number(s, 1),
					    catalogue_column_number(s, 2), catalogue_column_number(s, 3),
					    catalogue_column_number(s, 4)};
		callback(context, &owner);
	}
	sqlite3_finalize(s);
}

char *catalogue_read_summary(struct catalogue *catalogue, uint64_t number)
{
	char path[560];
	snprintf(path, sizeof path, "%s/%" PRIu64 ".db", catalogue->folder_path, number);
	sqlite3 *db = NULL;
	sqlite3_stmt *s = NULL;
	char *copy = NULL;
	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX, NULL) ==
		    SQLITE_OK &&
	    sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key = 'summary'", -1, &s, NULL) == SQLITE_OK &&
	    sqlite3_step(s) == SQLITE_ROW && sqlite3_column_text(s, 0))
		copy = strdup((const char *)sqlite3_column_text(s, 0));
	sqlite3_finalize(s);
	sqlite3_close(db);
	return copy;
}
