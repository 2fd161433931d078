/* audit_rows.c - see audit_rows.h. Thread: the catalogue's. No locks. */
#include "audit_rows.h"
#include "catalogue.h"
#include "sql.h"

#include <errno.h>

int catalogue_audit_put(struct catalogue *catalogue, const struct audit_row *row, uint64_t keep)
{
	sqlite3_stmt *s = catalogue_prepare(catalogue, "INSERT INTO audit (at, uid, pid, action, subject, outcome, "
						       "target_pid, target_uid) VALUES (?,?,?,?,?,?,?,?)");
	if (!s)
		return -EIO;
	sqlite3_bind_int64(s, 1, (int64_t)row->at);
	sqlite3_bind_int64(s, 2, row->uid);
	sqlite3_bind_int64(s, 3, row->pid);
	sqlite3_bind_text(s, 4, row->action, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, 5, row->subject, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, 6, row->outcome, -1, SQLITE_STATIC);
	if (row->target_pid)
		sqlite3_bind_int64(s, 7, row->target_pid);
	if (row->target_uid != (uid_t)-1)
		sqlite3_bind_int64(s, 8, row->target_uid);
	int error = catalogue_finish(catalogue, s);
	if (catalogue->audit_rows++ % CATALOGUE_PRUNE_EVERY == 0)
		catalogue_prune(catalogue, "audit", "uid", keep);
	return error;
}

int catalogue_audit_list(struct catalogue *catalogue, const struct audit_filter *filter, struct audit_row *rows,
			 unsigned room)
{
	sqlite3_stmt *s = catalogue_prepare(
		catalogue, "SELECT id, at, uid, pid, action, subject, outcome, target_pid, target_uid FROM audit WHERE "
			   "(?1 OR uid = ?2 OR target_uid = ?2) AND (?3 < 0 OR uid = ?3) AND (?4 = '' OR action = ?4) "
			   "AND at >= ?5 AND id < ?6 ORDER BY id DESC LIMIT ?7");
	if (!s)
		return -EIO;
	sqlite3_bind_int(s, 1, filter->all);
	sqlite3_bind_int64(s, 2, filter->uid);
	sqlite3_bind_int64(s, 3, filter->by_uid == (uid_t)-1 ? -1 : (int64_t)filter->by_uid);
	sqlite3_bind_text(s, 4, filter->action, -1, SQLITE_STATIC);
	sqlite3_bind_int64(s, 5, (int64_t)filter->since);
	sqlite3_bind_int64(s, 6, (int64_t)filter->before);
	sqlite3_bind_int64(s, 7, room);
	unsigned n = 0;
	while (n < room && sqlite3_step(s) == SQLITE_ROW) {
		struct audit_row *row = &rows[n++];
		row->number = (uint64_t)sqlite3_column_int64(s, 0);
		row->at = (uint64_t)sqlite3_column_int64(s, 1);
		row->uid = (uid_t)sqlite3_column_int64(s, 2);
		row->pid = (pid_t)sqlite3_column_int64(s, 3);
		catalogue_column_text(s, 4, row->action, sizeof row->action);
		catalogue_column_text(s, 5, row->subject, sizeof row->subject);
		catalogue_column_text(s, 6, row->outcome, sizeof row->outcome);
		row->target_pid = (pid_t)sqlite3_column_int64(s, 7);
		bool known = sqlite3_column_type(s, 8) != SQLITE_NULL;
		row->target_uid = known ? (uid_t)sqlite3_column_int64(s, 8) : (uid_t)-1;
		/* Looking up a user's name may need the network. On this thread the wait delays nobody. */
		user_name(row->uid, row->user, sizeof row->user);
		if (known)
			user_name(row->target_uid, row->target_user, sizeof row->target_user);
	}
	sqlite3_finalize(s);
	return (int)n;
}
