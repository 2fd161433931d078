/* audit.c - see audit.h. Thread: the loop's; the functions named _run are the catalogue's. No locks. */
#include "audit.h"
#include "proto/base/clock.h"
#include "audit_rows.h"
#include "catalogue.h"
#include "proto/base/log.h"
#include "daemon/core/connection.h"
#include "daemon/core/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Lines of one user in a minute; triggers have a limit of their own (triggers_user). */
#define DONE_MINUTE 1200
#define REFUSED_MINUTE 60
#define MINUTE 60000000000ull

struct put {
	struct work work;
	struct server *server;
	uint64_t keep;
	struct audit_row row;
};

/* Escapes a value that is written between quotes. */
static void quoted(char *to, size_t to_bytes, const char *from)
{
	size_t at = 0;
	for (; *from && at + 3 < to_bytes; from++) {
		if (*from == '"' || *from == '\\')
			to[at++] = '\\';
		to[at++] = *from;
	}
	to[at] = 0;
}

static void write_line(const struct audit_row *row)
{
	char at[TIME_TEXT_BYTES], user[64], subject[2 * AUDIT_SUBJECT_BYTES], target[96] = "";
	time_text(row->at, at);
	quoted(user, sizeof user, row->user);
	quoted(subject, sizeof subject, row->subject);
	if (row->target_pid && row->target_uid != (uid_t)-1)
		snprintf(target, sizeof target, " target_pid=%d target_uid=%u", row->target_pid, row->target_uid);
	else if (row->target_pid)
		snprintf(target, sizeof target, " target_pid=%d", row->target_pid);
	else if (row->target_uid != (uid_t)-1)
		snprintf(target, sizeof target, " target_uid=%u", row->target_uid);
	log_notice("audit: action=%s outcome=%s uid=%u user=\"%s\" pid=%d%s subject=\"%s\" at=%s", row->action,
		   row->outcome, row->uid, user, row->pid, target, subject, at);
}

static int64_t put_run(struct work *work)
{
	struct put *put = (struct put *)work;
	user_name(put->row.uid, put->row.user, sizeof put->row.user);
	write_line(&put->row);
	catalogue_audit_put(catalogue_of(put->server), &put->row, put->keep);
	free(put);
	return WORK_DONE;
}

static void submit(struct server *server, const struct audit_entry *entry)
{
	struct put *put = calloc(1, sizeof *put);
	struct audit_row row = {.at = clock_realtime(),
				.uid = entry->by.uid,
				.pid = entry->by.pid,
				.target_pid = entry->target_pid,
				.target_uid = entry->target_uid};
	text_copy(row.action, sizeof row.action, entry->action);
	text_copy(row.outcome, sizeof row.outcome, entry->outcome);
	text_copy(row.subject, sizeof row.subject, entry->subject);
	snprintf(row.user, sizeof row.user, "%u", entry->by.uid);
	if (put) {
		put->work.run = put_run;
		put->server = server;
		put->keep = server->config.audit_lines;
		put->row = row;
	}
	/* If the catalogue does not keep up it takes no more lines. The journal has the line nevertheless. */
	if (!put || !catalogue_submit(catalogue_of(server), &put->work)) {
		write_line(&row);
		free(put);
	}
}

static void leave_out(struct quota_lines *lines, const struct audit_entry *entry)
{
	lines->left_out++;
	for (size_t i = 0; i < QUOTA_LINE_KINDS; i++) {
		bool unused = !lines->kinds[i].count;
		if (!unused && (strcmp(lines->kinds[i].action, entry->action) != 0 ||
				strcmp(lines->kinds[i].outcome, entry->outcome) != 0))
			continue;
		lines->kinds[i].action = entry->action;
		lines->kinds[i].outcome = entry->outcome;
		lines->kinds[i].count++;
		return;
	}
}

static void flush(struct server *server, uid_t uid, struct quota_lines *lines, uint64_t now)
{
	if (now < lines->since + MINUTE)
		return;
	if (lines->left_out) {
		char subject[AUDIT_SUBJECT_BYTES];
		size_t at = (size_t)snprintf(subject, sizeof subject, "%llu more lines of this user in a minute:",
					     (unsigned long long)lines->left_out);
		for (size_t i = 0; i < QUOTA_LINE_KINDS && lines->kinds[i].count && at < sizeof subject; i++)
			at += (size_t)snprintf(subject + at, sizeof subject - at, "%s %s %s x %llu", i ? "," : "",
					       lines->kinds[i].action, lines->kinds[i].outcome,
					       (unsigned long long)lines->kinds[i].count);
		struct audit_entry entry = {.by = {.uid = uid},
					    .action = "audit",
					    .outcome = "left_out",
					    .subject = subject,
					    .target_uid = (uid_t)-1};
		submit(server, &entry);
		server->quota.left_out--;
	}
	*lines = (struct quota_lines){.since = now};
}

void audit_tick(struct server *server, uint64_t now)
{
	for (size_t i = 0; i < QUOTA_BUCKETS; i++)
		for (struct quota_user *user = server->quota.buckets[i]; user; user = user->next)
			flush(server, user->uid, &user->lines, now);
}

bool audit_waits(const struct server *server)
{
	return server->quota.left_out != 0;
}

void audit_put(struct server *server, const struct audit_entry *entry)
{
	counters_audited(&server->counters, entry->outcome);
	if (!entry->user || entry->trusted) {
		submit(server, entry);
		return;
	}
	struct quota_lines *lines = &entry->user->lines;
	flush(server, entry->user->uid, lines, clock_monotonic());
	unsigned *count = entry->refused ? &lines->refused : &lines->done;
	if (*count < (entry->refused ? REFUSED_MINUTE : DONE_MINUTE)) {
		(*count)++;
		submit(server, entry);
		return;
	}
	if (!lines->left_out)
		server->quota.left_out++;
	leave_out(lines, entry);
}

static struct audit_entry of_conn(struct conn *conn, const char *action, const char *subject, pid_t target_pid,
				  uid_t target_uid)
{
	return (struct audit_entry){.by = conn->peer,
				    .user = conn->user,
				    .trusted = conn->admin,
				    .action = action,
				    .subject = subject,
				    .target_pid = target_pid,
				    .target_uid = target_uid};
}

void audit_done(struct conn *conn, const char *action, const char *subject, const char *outcome, pid_t target_pid,
		uid_t target_uid)
{
	struct audit_entry entry = of_conn(conn, action, subject, target_pid, target_uid);
	entry.outcome = outcome;
	audit_put(conn->server, &entry);
}

void audit_refused(struct conn *conn, const char *action, const char *subject, enum error error, pid_t target_pid,
		   uid_t target_uid)
{
	struct audit_entry entry = of_conn(conn, action, subject, target_pid, target_uid);
	entry.outcome = error_word(error);
	entry.refused = true;
	/* Lines about malformed packets are limited for everybody, root included. */
	entry.trusted = conn->peer.uid == 0 && error != ERROR_PROTOCOL;
	audit_put(conn->server, &entry);
}

uid_t audit_owner(pid_t pid)
{
	char path[32];
	struct stat facts;
	snprintf(path, sizeof path, "/proc/%d", pid);
	return stat(path, &facts) ? (uid_t)-1 : facts.st_uid;
}
