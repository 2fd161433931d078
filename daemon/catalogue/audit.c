/* audit.c - see audit.h. Thread: the loop's; the functions named _run are the catalogue's. No locks. */
#include "audit.h"
#include "audit_rows.h"
#include "base/clock.h"
#include "base/log.h"
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
/* Rows that the catalogue is asked for at a time. */
#define PAGE_ROWS 100
#define LINES_DEFAULT 100

struct put {
	struct work work;
	struct server *server;
	uint64_t keep;
	struct audit_row row;
};

/* A value that may hold blanks, between quotes. */
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
	catalogue_audit_put(&put->server->catalogue, &put->row, put->keep);
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
	/* A catalogue that does not keep up takes nothing more: the journal has the line all the same. */
	if (!put || !catalogue_submit(&server->catalogue, &put->work)) {
		write_line(&row);
		free(put);
	}
}

static void leave_out(struct audit_budget *budget, const struct audit_entry *entry)
{
	budget->left_out++;
	for (size_t i = 0; i < AUDIT_KINDS; i++) {
		bool unused = !budget->kinds[i].count;
		if (!unused && (strcmp(budget->kinds[i].action, entry->action) != 0 ||
				strcmp(budget->kinds[i].outcome, entry->outcome) != 0))
			continue;
		budget->kinds[i].action = entry->action;
		budget->kinds[i].outcome = entry->outcome;
		budget->kinds[i].count++;
		return;
	}
}

void audit_flush(struct server *server, uid_t uid, struct audit_budget *budget, uint64_t now)
{
	if (now < budget->since + MINUTE)
		return;
	if (budget->left_out) {
		char subject[AUDIT_SUBJECT_BYTES];
		size_t at = (size_t)snprintf(subject, sizeof subject, "%llu more lines of this user in a minute:",
					     (unsigned long long)budget->left_out);
		for (size_t i = 0; i < AUDIT_KINDS && budget->kinds[i].count && at < sizeof subject; i++)
			at += (size_t)snprintf(subject + at, sizeof subject - at, "%s %s %s x %llu", i ? "," : "",
					       budget->kinds[i].action, budget->kinds[i].outcome,
					       (unsigned long long)budget->kinds[i].count);
		struct audit_entry entry = {.by = {.uid = uid},
					    .action = "audit",
					    .outcome = "left_out",
					    .subject = subject,
					    .target_uid = (uid_t)-1};
		submit(server, &entry);
		server->left_out--;
	}
	*budget = (struct audit_budget){.since = now};
}

void audit_put(struct server *server, const struct audit_entry *entry)
{
	counters_audited(&server->counters, entry->outcome);
	if (!entry->user || entry->trusted) {
		submit(server, entry);
		return;
	}
	struct audit_budget *budget = &entry->user->audit;
	audit_flush(server, entry->user->uid, budget, clock_monotonic());
	unsigned *count = entry->refused ? &budget->refused : &budget->done;
	if (*count < (entry->refused ? REFUSED_MINUTE : DONE_MINUTE)) {
		(*count)++;
		submit(server, entry);
		return;
	}
	if (!budget->left_out)
		server->left_out++;
	leave_out(budget, entry);
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
	/* Nobody is trusted with garbage. */
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

/* --- op "audit" --- */

struct query {
	struct work work;
	struct conn *conn; /* a reference */
	struct audit_filter filter;
	unsigned room;
	int count;
	struct audit_row *rows;
};

static void query_free(struct query *query)
{
	quota_answered(query->conn->server, query->conn->user);
	conn_unref(query->conn);
	free(query->rows);
	free(query);
}

static int64_t list_run(struct work *work)
{
	struct query *query = (struct query *)work;
	query->rows = calloc(query->room, sizeof *query->rows);
	query->count = query->rows ? catalogue_audit_list(&query->conn->server->catalogue, &query->filter, query->rows,
							  query->room)
				   : -ENOMEM;
	return WORK_DONE;
}

static void send_row(struct conn *conn, const struct audit_row *line)
{
	char at[TIME_TEXT_BYTES];
	cJSON *row = conn_row_new("audit");
	time_text(line->at, at);
	cJSON_AddStringToObject(row, "at", at);
	cJSON_AddNumberToObject(row, "uid", line->uid);
	cJSON_AddStringToObject(row, "user", line->user);
	cJSON_AddNumberToObject(row, "pid", line->pid);
	cJSON_AddStringToObject(row, "action", line->action);
	cJSON_AddStringToObject(row, "subject", line->subject);
	cJSON_AddStringToObject(row, "outcome", line->outcome);
	if (line->target_pid)
		cJSON_AddNumberToObject(row, "target_pid", line->target_pid);
	else
		cJSON_AddNullToObject(row, "target_pid");
	if (line->target_uid != (uid_t)-1) {
		cJSON_AddNumberToObject(row, "target_uid", line->target_uid);
		cJSON_AddStringToObject(row, "target_user", line->target_user);
	} else {
		cJSON_AddNullToObject(row, "target_uid");
		cJSON_AddNullToObject(row, "target_user");
	}
	conn_row(conn, row);
}

static void list_done(struct work *work)
{
	struct query *query = (struct query *)work;
	struct conn *conn = query->conn;
	conn->fetching = false;
	if (conn->closed) {
		query_free(query);
		return;
	}
	for (int i = 0; i < query->count; i++) {
		conn->cursor = query->rows[i].number;
		conn->left--;
		send_row(conn, &query->rows[i]);
	}
	if (query->count < 0 || !work->run)
		conn_error(conn, ERROR_FAILED, "the daemon cannot read its catalogue; its log says why", 0);
	else if (query->count < (int)query->room || conn->left == 0)
		conn_end(conn, NULL);
	else if (conn->queued < SERVER_QUEUE_LOW)
		conn->produce(conn);
	query_free(query);
}

static void produce(struct conn *conn)
{
	const struct request *request = &conn->request;
	struct query *query = calloc(1, sizeof *query);
	if (!query) {
		conn_error(conn, ERROR_FAILED, "the daemon is out of memory", 0);
		return;
	}
	query->work = (struct work){.run = list_run, .done = list_done};
	query->conn = conn_ref(conn);
	query->room = conn->left < PAGE_ROWS ? (unsigned)conn->left : PAGE_ROWS;
	query->filter = (struct audit_filter){.all = conn->admin,
					      .uid = conn->peer.uid,
					      .by_uid = request->has_uid ? request->uid : (uid_t)-1,
					      .since = request->since,
					      .before = conn->cursor};
	text_copy(query->filter.action, sizeof query->filter.action, request->name);
	conn->fetching = true;
	if (quota_ask(conn->server, conn->user, &query->work))
		return;
	conn->fetching = false;
	conn_error(conn, ERROR_FAILED, "the daemon's disk does not keep up; try again in a moment", 0);
	conn_unref(conn);
	free(query);
}

void audit_serve(struct conn *conn)
{
	uint64_t now = clock_realtime();
	conn->cursor = INT64_MAX;
	conn->left = conn->request.limit ? conn->request.limit : LINES_DEFAULT;
	/* From an age to a time, once: pages do not slide. */
	conn->request.since = conn->request.since && conn->request.since < now ? now - conn->request.since : 0;
	conn->produce = produce;
	produce(conn);
}
