/* history.c - see history.h. Thread: the catalogue's. No locks. */
#include "history.h"
#include "catalogue.h"
#include "sql.h"
#include "proto/base/clock.h"

#include <errno.h>

/* Rows kept of processes that were registered once, and of triggers (with their requests). */
#define PROCESS_ROWS 100000
#define TRIGGER_ROWS 20000

void catalogue_history_grown(struct catalogue *catalogue)
{
	if (catalogue->history_rows++ % CATALOGUE_PRUNE_EVERY)
		return;
	catalogue_prune(catalogue, "processes", "uid", PROCESS_ROWS);
	catalogue_prune(catalogue, "triggers", "by_uid", TRIGGER_ROWS);
}

uint64_t catalogue_last_trigger(struct catalogue *catalogue)
{
	/* Captures name their triggers, even if a damaged catalogue has lost the rows of triggers. */
	return catalogue_number(catalogue,
				"SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'triggers'), 0), "
				"coalesce((SELECT max(trigger) FROM captures), 0))");
}

int catalogue_put_trigger(struct catalogue *catalogue, uint64_t number, uid_t uid, pid_t pid, const char *request)
{
	sqlite3_stmt *s = catalogue_prepare(
		catalogue, "INSERT OR REPLACE INTO triggers (id, at, by_uid, by_pid, request) VALUES (?,?,?,?,?)");
	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, (int64_t)number);
	sqlite3_bind_int64(s, 2, (int64_t)clock_realtime());
	sqlite3_bind_int64(s, 3, uid);
	sqlite3_bind_int64(s, 4, pid);
	sqlite3_bind_text(s, 5, request, -1, SQLITE_STATIC);
	catalogue_history_grown(catalogue);
	return catalogue_finish(catalogue, s);
}

int catalogue_put_process(struct catalogue *catalogue, const struct identity *who)
{
	sqlite3_stmt *s = catalogue_prepare(
		catalogue, "INSERT INTO processes (pid, start_time, uid, host, name, command, job, rank, "
			   "world_size, registered) VALUES (?,?,?,?,?,?,?,?,?,?)");
	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, who->pid);
	sqlite3_bind_int64(s, 2, (int64_t)who->start_time);
	sqlite3_bind_int64(s, 3, who->uid);
	catalogue_bind_text(s, 4, who->host);
	catalogue_bind_text(s, 5, who->name);
	catalogue_bind_text(s, 6, who->command);
	catalogue_bind_text(s, 7, who->job);
	catalogue_bind_rank(s, 8, who->rank);
	catalogue_bind_rank(s, 9, who->world_size);
	sqlite3_bind_int64(s, 10, (int64_t)clock_realtime());
	catalogue_history_grown(catalogue);
	return catalogue_finish(catalogue, s);
}

int catalogue_process_gone(struct catalogue *catalogue, pid_t pid, uint64_t start_time)
{
	sqlite3_stmt *s = catalogue_prepare(
		catalogue, "UPDATE processes SET gone = ? WHERE id = (SELECT max(id) FROM processes WHERE "
			   "pid = ? AND start_time = ?)");
	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, (int64_t)clock_realtime());
	sqlite3_bind_int64(s, 2, pid);
	sqlite3_bind_int64(s, 3, (int64_t)start_time);
	return catalogue_finish(catalogue, s);
}
