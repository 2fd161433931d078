/* serve_kept.c - see serve_kept.h. Thread: the loop's; *_run on the catalogue's. No locks. */
#include "serve_kept.h"
#include "daemon/capture/capture.h"
#include "base/clock.h"
#include "daemon/core/namespaces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_ROWS 50
#define DELETED_DEFAULT 100

/* --- rm, pin, unpin --- */

struct change {
	uint64_t number;
	enum error error;
	/* Whose it is; (uid_t)-1: not known. */
	uid_t uid;
	pid_t pid;
	uint64_t bytes;
	bool was_pinned;
};

struct change_work {
	struct work work;
	struct server *server;
	struct conn *conn; /* a reference */
	enum request_op op;
	bool keep; /* rm: a snapshot's --keep asks for it */
	size_t count;
	struct change changes[];
};

static void change_one(struct change_work *change, struct change *one)
{
	struct catalogue *catalogue = &change->server->catalogue;
	struct capture_facts facts;
	if (catalogue_get(catalogue, one->number, &facts) != 1) {
		one->error = ERROR_NO_CAPTURE;
		return;
	}
	one->uid = facts.who.uid;
	one->pid = facts.who.pid;
	one->bytes = facts.bytes;
	one->was_pinned = facts.pinned;
	if (!conn_may(change->conn, facts.who.uid))
		one->error = ERROR_NOT_YOURS;
	else if (facts.status < CAPTURE_COMPLETE)
		one->error = ERROR_BUSY;
	else if (change->op == REQUEST_rm
			 ? catalogue_remove(catalogue, one->number, &change->conn->peer.uid,
					    change->keep ? "`profd snapshot --keep` made room for newer ones"
							 : "deleted by hand with `profd rm`")
			 : catalogue_pin(catalogue, one->number, change->op == REQUEST_pin))
		one->error = ERROR_FAILED;
}

static int64_t change_run(struct work *work)
{
	struct change_work *change = (struct change_work *)work;
	for (size_t i = 0; i < change->count; i++)
		if (!change->changes[i].error)
			change_one(change, &change->changes[i]);
	return WORK_DONE;
}

/* What is done, and what the reply's row is called. */
static const char *done_word(enum request_op op)
{
	return op == REQUEST_rm ? "removed" : op == REQUEST_pin ? "pinned" : "unpinned";
}

static void count(const struct change_work *change, const struct change *one)
{
	struct server *server = change->server;
	bool pin = change->op == REQUEST_pin;
	if (change->op == REQUEST_rm) {
		usage_remove(&server->usage, one->uid, 1, one->bytes);
		counters_deleted(&server->counters, "rm", 1, one->bytes);
		if (one->was_pinned)
			usage_pin(&server->usage, one->uid, 1, one->bytes, false);
	} else if (pin != one->was_pinned) {
		usage_pin(&server->usage, one->uid, 1, one->bytes, pin);
	}
}

static void add_error(cJSON *row, enum request_op op, enum error error, const char *id)
{
	static const char *const failures[] = {"deleted", "pinned", "unpinned"};
	char detail[160], sentence[SENTENCE_BYTES];
	const char *what = failures[op == REQUEST_rm ? 0 : op == REQUEST_pin ? 1 : 2];
	if (error == ERROR_FAILED)
		snprintf(detail, sizeof detail, "capture %s could not be %s; the daemon's log says why", id, what);
	else
		snprintf(detail, sizeof detail, error == ERROR_NO_CAPTURE ? "%s" : "capture %s", id);
	if (error == ERROR_BUSY)
		snprintf(sentence, sizeof sentence,
			 "capture %s is under way; wait for it, or end it with `profd cancel %s`", id, id);
	else
		error_text(error, detail, sentence);
	cJSON *object = cJSON_AddObjectToObject(row, "error");
	cJSON_AddStringToObject(object, "code", error_word(error));
	cJSON_AddStringToObject(object, "message", sentence);
}

/* What there is not, or not yet, is nobody's. */
static void audit_change(struct conn *conn, const char *action, const char *id, const char *done,
			 const struct change *one)
{
	if (!one->error)
		audit_done(conn, action, id, done, one->pid, one->uid);
	else if (one->error == ERROR_NOT_YOURS || one->error == ERROR_FAILED)
		audit_refused(conn, action, id, one->error, one->pid, one->uid);
}

static const char slow_disk[] = "the daemon's disk does not keep up; try again in a moment";

static void change_done(struct work *work)
{
	struct change_work *change = (struct change_work *)work;
	struct conn *conn = change->conn;
	struct server *server = change->server;
	const char *action = change->op == REQUEST_rm ? "rm" : change->op == REQUEST_pin ? "pin" : "unpin";
	bool asked = work->run != NULL;
	quota_answered(server, conn->user);
	for (size_t i = 0; i < change->count && asked; i++) {
		struct change *one = &change->changes[i];
		char id[REQUEST_ID_BYTES];
		if (!one->error && work->failed)
			one->error = ERROR_FAILED;
		if (!one->error)
			count(change, one);
		if (conn->closed || !conn->request.ids)
			capture_id_text(one->number, server->user, id);
		else
			text_copy(id, sizeof id, conn->request.ids[i]);
		audit_change(conn, action, id, done_word(change->op), one);
		if (conn->closed)
			continue;
		cJSON *row = conn_row_new(one->error ? "kept" : done_word(change->op));
		cJSON_AddStringToObject(row, "capture_id", id);
		if (one->error)
			add_error(row, change->op, one->error, id);
		conn_row(conn, row);
	}
	if (!conn->closed && asked)
		conn_end(conn, NULL);
	else if (!conn->closed)
		conn_error(conn, ERROR_FAILED, slow_disk, 0);
	conn_unref(conn);
	free(change);
	retention_look(server);
}

void serve_change(struct conn *conn)
{
	size_t n = conn->request.id_count;
	struct change_work *change = calloc(1, sizeof *change + n * sizeof *change->changes);
	if (!change) {
		conn_error(conn, ERROR_FAILED, "the daemon is out of memory", 0);
		return;
	}
	change->work = (struct work){.run = change_run, .done = change_done};
	change->server = conn->server;
	change->conn = conn_ref(conn);
	change->op = conn->request.op;
	change->keep = conn->request.keep;
	change->count = n;
	for (size_t i = 0; i < n; i++) {
		struct change *one = &change->changes[i];
		const struct capture *capture;
		one->number = capture_id_parse(conn->request.ids[i], conn->server->user);
		one->uid = (uid_t)-1;
		if (!one->number) {
			one->error = ERROR_NO_CAPTURE;
		} else if ((capture = capture_find(conn->server, one->number))) {
			one->uid = capture->facts.who.uid;
			one->pid = capture->facts.who.pid;
			one->error = conn_may(conn, one->uid) ? ERROR_BUSY : ERROR_NOT_YOURS;
		}
	}
	if (quota_ask(conn->server, conn->user, &change->work))
		return;
	conn_error(conn, ERROR_FAILED, slow_disk, 0);
	conn_unref(conn);
	free(change);
}

/* --- deleted --- */

struct deleted_work {
	struct work work;
	struct server *server;
	struct conn *conn; /* a reference */
	struct catalogue_filter filter;
	unsigned room;
	int count;
	struct deleted_facts rows[PAGE_ROWS];
};

static int64_t deleted_run(struct work *work)
{
	struct deleted_work *query = (struct deleted_work *)work;
	query->count = catalogue_list_deleted(&query->server->catalogue, &query->filter, query->rows, query->room);
	return WORK_DONE;
}

static void add_time(cJSON *row, const char *key, uint64_t at)
{
	char text[TIME_TEXT_BYTES];
	if (at) {
		time_text(at, text);
		cJSON_AddStringToObject(row, key, text);
	} else {
		cJSON_AddNullToObject(row, key);
	}
}

static cJSON *deleted_row(const struct conn *conn, const struct deleted_facts *facts)
{
	char id[ID_BYTES];
	cJSON *row = conn_row_new("deleted");
	struct identity who = {.pid = facts->pid};
	memcpy(who.pids, facts->pids, sizeof who.pids);
	capture_id_text(facts->number, conn->server->user, id);
	cJSON_AddStringToObject(row, "capture_id", id);
	registry_add_pid(row, namespace_pid(&who, conn->server->pid_namespace, conn->pid_namespace));
	cJSON_AddNumberToObject(row, "uid", facts->uid);
	cJSON_AddStringToObject(row, "user", facts->user);
	cJSON_AddStringToObject(row, "name", facts->name);
	cJSON_AddStringToObject(row, "job", facts->job);
	if (facts->rank >= 0)
		cJSON_AddNumberToObject(row, "rank", facts->rank);
	else
		cJSON_AddNullToObject(row, "rank");
	cJSON_AddStringToObject(row, "host", facts->host);
	cJSON_AddStringToObject(row, "label", facts->label);
	cJSON_AddStringToObject(row, "status", capture_status_word(facts->status));
	add_time(row, "started_at", facts->started);
	add_time(row, "finished_at", facts->finished);
	cJSON_AddNumberToObject(row, "bytes", (double)facts->bytes);
	add_time(row, "deleted_at", facts->at);
	if (facts->by_daemon) {
		cJSON_AddNullToObject(row, "by_uid");
		cJSON_AddStringToObject(row, "by", "the daemon");
	} else {
		cJSON_AddNumberToObject(row, "by_uid", facts->by);
		cJSON_AddStringToObject(row, "by", facts->by_user);
	}
	cJSON_AddStringToObject(row, "reason", facts->reason);
	return row;
}

static void produce_deleted(struct conn *conn);

static void deleted_done(struct work *work)
{
	struct deleted_work *query = (struct deleted_work *)work;
	struct conn *conn = query->conn;
	bool asked = work->run != NULL;
	conn->fetching = false;
	quota_answered(query->server, conn->user);
	for (int i = 0; i < query->count && !conn->closed; i++) {
		conn->cursor = query->rows[i].at;
		conn->left--;
		conn_row(conn, deleted_row(conn, &query->rows[i]));
	}
	if (conn->closed)
		;
	else if (!asked)
		conn_error(conn, ERROR_FAILED, slow_disk, 0);
	else if (query->count < 0)
		conn_error(conn, ERROR_FAILED, "the daemon cannot read its catalogue; its log says why", 0);
	else if (query->count < (int)query->room || conn->left == 0)
		conn_end(conn, NULL);
	else if (conn->queued < SERVER_QUEUE_LOW)
		produce_deleted(conn);
	conn_unref(conn);
	free(query);
}

static void produce_deleted(struct conn *conn)
{
	const struct request *request = &conn->request;
	struct deleted_work *query = calloc(1, sizeof *query);
	if (!query) {
		conn_error(conn, ERROR_FAILED, "the daemon is out of memory", 0);
		return;
	}
	query->work = (struct work){.run = deleted_run, .done = deleted_done};
	query->server = conn->server;
	query->filter = (struct catalogue_filter){.all = conn->admin,
						  .uid = conn->peer.uid,
						  .pid = request->pid_count ? request->pids[0] : 0,
						  .own = conn->pid_namespace == conn->server->pid_namespace,
						  .pid_namespace = conn->pid_namespace,
						  .before = conn->cursor};
	text_copy(query->filter.name, sizeof query->filter.name, request->name);
	text_copy(query->filter.job, sizeof query->filter.job, request->job);
	text_copy(query->filter.label, sizeof query->filter.label, request->label);
	query->room = conn->left < PAGE_ROWS ? (unsigned)conn->left : PAGE_ROWS;
	query->conn = conn_ref(conn);
	conn->fetching = true;
	if (quota_ask(conn->server, conn->user, &query->work))
		return;
	conn->fetching = false;
	conn_error(conn, ERROR_FAILED, slow_disk, 0);
	conn_unref(conn);
	free(query);
}

void serve_deleted(struct conn *conn)
{
	conn->cursor = INT64_MAX;
	conn->left = conn->request.limit ? conn->request.limit : DELETED_DEFAULT;
	conn->produce = produce_deleted;
	produce_deleted(conn);
}

void deleted_detail(const struct server *server, const struct deleted_facts *facts, char *to, size_t to_bytes)
{
	char id[ID_BYTES], at[TIME_TEXT_BYTES];
	capture_id_text(facts->number, server->user, id);
	time_text(facts->at, at);
	snprintf(to, to_bytes, "%s any more: %s deleted it at %s (%s)", id,
		 facts->by_daemon ? "the daemon" : facts->by_user, at, facts->reason);
}
