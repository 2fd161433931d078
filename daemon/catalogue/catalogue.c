/* catalogue.c - see catalogue.h. Threads: the catalogue's own, but for submit, init and deinit. Lock: catalogue->lock for
 * the queue. */
#include "catalogue_audit.h"
#include "sql.h"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* More than this many pieces wait only where the disk is stuck. */
#define WAITING_MAX 20000

int catalogue_failed(struct catalogue *catalogue)
{
	/* What cannot be written is tried again and again: said once a minute, not each time. */
	int code = sqlite3_errcode(catalogue->db);
	uint64_t now = clock_monotonic();
	if (code != catalogue->failed_code || now > catalogue->failed_at + 60000000000u) {
		log_line("catalogue: %s", sqlite3_errmsg(catalogue->db));
		catalogue->failed_code = code;
		catalogue->failed_at = now;
	}
	return code == SQLITE_FULL ? -ENOSPC : -EIO;
}

int catalogue_run(struct catalogue *catalogue, const char *sql)
{
	return sqlite3_exec(catalogue->db, sql, NULL, NULL, NULL) ? catalogue_failed(catalogue) : 0;
}

sqlite3_stmt *catalogue_prepare(struct catalogue *catalogue, const char *sql)
{
	sqlite3_stmt *statement = NULL;
	if (sqlite3_prepare_v2(catalogue->db, sql, -1, &statement, NULL))
		catalogue_failed(catalogue);
	return statement;
}

int catalogue_finish(struct catalogue *catalogue, sqlite3_stmt *statement)
{
	if (!statement)
		return -EIO;
	int code = sqlite3_step(statement), error = 0;
	if (code != SQLITE_DONE && code != SQLITE_ROW)
		error = catalogue_failed(catalogue);
	sqlite3_finalize(statement);
	return error;
}

uint64_t catalogue_number(struct catalogue *catalogue, const char *sql)
{
	sqlite3_stmt *statement = catalogue_prepare(catalogue, sql);
	uint64_t value =
		statement && sqlite3_step(statement) == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(statement, 0) : 0;
	sqlite3_finalize(statement);
	return value;
}

/* All that waits in one transaction: its fsync is paid once. */
static void *catalogue_thread(void *argument)
{
	struct catalogue *catalogue = argument;
	pthread_mutex_lock(&catalogue->lock);
	for (;;) {
		struct work *work = catalogue->first;
		if (!work) {
			if (catalogue->stop)
				break;
			pthread_cond_wait(&catalogue->changed, &catalogue->lock);
			continue;
		}
		catalogue->first = catalogue->last = NULL;
		catalogue->waiting = 0;
		pthread_mutex_unlock(&catalogue->lock);
		int began = catalogue_run(catalogue, "BEGIN");
		struct work *finished = NULL, **end = &finished;
		while (work) {
			struct work *next = work->next;
			bool reports = work->done != NULL;
			work_beat_begin(&catalogue->beat);
			work->run(work);
			if (reports) {
				work->next = NULL;
				*end = work;
				end = &work->next;
			}
			work = next;
		}
		work_beat_begin(&catalogue->beat);
		bool failed = began || catalogue_run(catalogue, "COMMIT");
		if (failed && !sqlite3_get_autocommit(catalogue->db))
			sqlite3_exec(catalogue->db, "ROLLBACK", NULL, NULL, NULL);
		work_beat_end(&catalogue->beat);
		while (finished) {
			struct work *next = finished->next;
			finished->failed = failed;
			work_outbox_put(catalogue->outbox, finished);
			finished = next;
		}
		pthread_mutex_lock(&catalogue->lock);
	}
	pthread_mutex_unlock(&catalogue->lock);
	return NULL;
}

int catalogue_start(struct catalogue *catalogue, struct work_outbox *outbox)
{
	catalogue->outbox = outbox;
	pthread_mutex_init(&catalogue->lock, NULL);
	pthread_cond_init(&catalogue->changed, NULL);
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&catalogue->thread, NULL, catalogue_thread, catalogue);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	catalogue->running = error == 0;
	return -error;
}

void catalogue_deinit(struct catalogue *catalogue)
{
	if (catalogue->running) {
		pthread_mutex_lock(&catalogue->lock);
		catalogue->stop = true;
		pthread_cond_signal(&catalogue->changed);
		pthread_mutex_unlock(&catalogue->lock);
		pthread_join(catalogue->thread, NULL);
		pthread_cond_destroy(&catalogue->changed);
		pthread_mutex_destroy(&catalogue->lock);
	}
	sqlite3_close(catalogue->db);
	memset(catalogue, 0, sizeof *catalogue);
}

bool catalogue_submit(struct catalogue *catalogue, struct work *work)
{
	if (!catalogue->running)
		return false;
	work->next = NULL;
	pthread_mutex_lock(&catalogue->lock);
	bool taken = catalogue->waiting < WAITING_MAX;
	if (taken) {
		if (catalogue->last)
			catalogue->last->next = work;
		else
			catalogue->first = work;
		catalogue->last = work;
		catalogue->waiting++;
		pthread_cond_signal(&catalogue->changed);
	}
	pthread_mutex_unlock(&catalogue->lock);
	return taken;
}

unsigned catalogue_waiting(const struct catalogue *catalogue)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&catalogue->lock;
	if (!catalogue->running)
		return 0;
	pthread_mutex_lock(lock);
	unsigned waiting = catalogue->waiting;
	pthread_mutex_unlock(lock);
	return waiting;
}

const char *catalogue_sqlite(void)
{
	return sqlite3_libversion();
}

uint64_t catalogue_last_capture(struct catalogue *catalogue)
{
	return catalogue_number(catalogue, "SELECT seq FROM sqlite_sequence WHERE name = 'captures'");
}

uint64_t catalogue_last_trigger(struct catalogue *catalogue)
{
	/* Captures know theirs, where a catalogue that was damaged has forgotten them. */
	return catalogue_number(catalogue,
				"SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'triggers'), 0), "
				"coalesce((SELECT max(trigger) FROM captures), 0))");
}

uint64_t catalogue_column_number(sqlite3_stmt *s, int at)
{
	return (uint64_t)sqlite3_column_int64(s, at);
}

void catalogue_each_owner(struct catalogue *catalogue, void (*callback)(void *context, const struct tally_owner *owner),
			  void *context)
{
	sqlite3_stmt *s = catalogue_prepare(
		catalogue, "SELECT uid, count(*), sum(bytes), total(pinned), sum(bytes * pinned) FROM captures WHERE "
			   "finished IS NOT NULL GROUP BY uid");
	while (s && sqlite3_step(s) == SQLITE_ROW) {
		struct tally_owner owner = {(uid_t)catalogue_column_number(s, 0), catalogue_column_number(s, 1),
					    catalogue_column_number(s, 2), catalogue_column_number(s, 3),
					    catalogue_column_number(s, 4)};
		callback(context, &owner);
	}
	sqlite3_finalize(s);
}

void catalogue_bind_text(sqlite3_stmt *statement, int at, const char *text)
{
	if (*text)
		sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

void catalogue_bind_rank(sqlite3_stmt *statement, int at, int32_t rank)
{
	if (rank >= 0)
		sqlite3_bind_int(statement, at, rank);
}

void catalogue_bind_known(sqlite3_stmt *statement, int at, uint64_t value)
{
	if (value)
		sqlite3_bind_int64(statement, at, (int64_t)value);
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

int catalogue_put_after(struct catalogue *catalogue, uint64_t number, uint64_t step_after)
{
	sqlite3_stmt *s = catalogue_prepare(catalogue, "UPDATE captures SET step_after = ? WHERE id = ?");
	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, (int64_t)(step_after & INT64_MAX));
	sqlite3_bind_int64(s, 2, (int64_t)number);
	return catalogue_finish(catalogue, s);
}

void catalogue_column_text(sqlite3_stmt *s, int at, char *to, size_t to_bytes)
{
	const char *text = (const char *)sqlite3_column_text(s, at);
	text_copy(to, to_bytes, text ? text : "");
}

int32_t catalogue_column_rank(sqlite3_stmt *s, int at)
{
	return sqlite3_column_type(s, at) == SQLITE_NULL ? -1 : sqlite3_column_int(s, at);
}

enum capture_status catalogue_status_from_word(const char *word)
{
	for (unsigned status = 0; status < CAPTURE_STATUS_COUNT; status++)
		if (word && strcmp(capture_status_word(status), word) == 0)
			return (enum capture_status)status;
	return CAPTURE_FAILED;
}

enum cancel_reason catalogue_reason_from_word(const char *word)
{
	for (unsigned reason = 0; word && cancel_reason_word(reason); reason++)
		if (strcmp(cancel_reason_word(reason), word) == 0)
			return (enum cancel_reason)reason;
	return REASON_NONE;
}

void catalogue_read_row(sqlite3_stmt *s, struct capture_facts *ret)
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
	/* Names may come over a network: here, where waiting harms nobody. */
	user_name(ret->who.uid, ret->who.user, sizeof ret->who.user);
}

int catalogue_get(struct catalogue *catalogue, uint64_t number, struct capture_facts *ret)
{
	sqlite3_stmt *s = catalogue_prepare(catalogue, "SELECT " CATALOGUE_ROW " FROM captures WHERE id = ?");
	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, (int64_t)number);
	int found = sqlite3_step(s) == SQLITE_ROW;
	if (found)
		catalogue_read_row(s, ret);
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
	/* As namespaces.c writes them. */
	char inner[40] = "";
	if (!filter->own)
		snprintf(inner, sizeof inner, " %" PRIu64 ":%d ", filter->pid_namespace, filter->pid);
	sqlite3_bind_text(s, 10, inner, -1, SQLITE_TRANSIENT);
}

int catalogue_list(struct catalogue *catalogue, const struct catalogue_filter *filter, struct capture_facts *rows,
		   unsigned room)
{
	sqlite3_stmt *s =
		catalogue_prepare(catalogue, "SELECT " CATALOGUE_ROW " FROM captures WHERE " CATALOGUE_FILTER
					     " AND id < ?7 AND (?9 = 0 OR trigger = ?9) ORDER BY id DESC LIMIT ?8");
	if (!s)
		return -EIO;
	catalogue_bind_filter(s, filter, room);
	unsigned n = 0;
	while (n < room && sqlite3_step(s) == SQLITE_ROW)
		catalogue_read_row(s, &rows[n++]);
	sqlite3_finalize(s);
	return (int)n;
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
