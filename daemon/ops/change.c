/* change.c - see change.h. Thread: the loop's; change_run has the catalogue's. No locks. */
#include "change.h"
#include "clients.h"
#include "daemon/capture/capture.h"
#include "daemon/catalogue/ask.h"
#include "daemon/catalogue/audit.h"
#include "daemon/catalogue/captures.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/catalogue/retention.h"
#include "daemon/core/connection.h"
#include "daemon/core/json.h"
#include "daemon/core/reply.h"
#include "daemon/core/server.h"
#include "list.h"

#include <stdio.h>
#include <stdlib.h>

struct changes {
	struct work work;
	const struct change_kind *kind;
	struct server *server;
	struct conn *conn; /* a reference */
	bool keep;
	size_t count;
	struct change each[];
};

static void change_one(struct changes *changes, struct change *change)
{
	struct catalogue *catalogue = catalogue_of(changes->server);
	struct capture_facts facts;
	if (catalogue_get(catalogue, change->number, &facts) != 1) {
		change->error = ERROR_NO_CAPTURE;
		return;
	}
	change->uid = facts.who.uid;
	change->pid = facts.who.pid;
	change->bytes = facts.bytes;
	change->was_pinned = facts.pinned;
	if (!conn_may(changes->conn, facts.who.uid))
		change->error = ERROR_NOT_YOURS;
	else if (facts.status < CAPTURE_COMPLETE)
		change->error = ERROR_BUSY;
	else if (changes->kind->apply(catalogue, change->number, changes->conn->peer.uid, changes->keep))
		change->error = ERROR_FAILED;
}

static int64_t change_run(struct work *work)
{
	struct changes *changes = (struct changes *)work;
	for (size_t i = 0; i < changes->count; i++)
		if (!changes->each[i].error)
			change_one(changes, &changes->each[i]);
	return WORK_DONE;
}

static void add_error(cJSON *row, const struct change_kind *kind, enum error error, const char *id)
{
	char detail[160], sentence[SENTENCE_BYTES];
	if (error == ERROR_FAILED)
		snprintf(detail, sizeof detail, "capture %s could not be %s; the daemon's log says why", id,
			 kind->failed);
	else
		snprintf(detail, sizeof detail, error == ERROR_NO_CAPTURE ? "%s" : "capture %s", id);
	if (error == ERROR_BUSY)
		snprintf(sentence, sizeof sentence,
			 "capture %s is under way; wait for it, or end it with `profd cancel %s`", id, id);
	else
		error_text(error, detail, sentence);
	json_add_error(row, error_word(error), sentence);
}

/* The audit log has no line on a capture that does not exist or is not finished, as that is not changed. */
static void audit_change(struct conn *conn, const struct change_kind *kind, const char *id, const struct change *change)
{
	if (!change->error)
		audit_done(conn, kind->action, id, kind->done, change->pid, change->uid);
	else if (change->error == ERROR_NOT_YOURS || change->error == ERROR_FAILED)
		audit_refused(conn, kind->action, id, change->error, change->pid, change->uid);
}

static void conclude(struct changes *changes, size_t i)
{
	struct change *change = &changes->each[i];
	struct conn *conn = changes->conn;
	char id[REQUEST_ID_BYTES];
	if (!change->error && changes->work.failed)
		change->error = ERROR_FAILED;
	if (!change->error)
		changes->kind->count(changes->server, change);
	if (conn->closed)
		capture_id_text(change->number, changes->server->user, id);
	else
		text_copy(id, sizeof id, client_of(conn)->request.ids[i]);
	audit_change(conn, changes->kind, id, change);
	if (conn->closed)
		return;
	cJSON *row = conn_row_new(change->error ? "kept" : changes->kind->done);
	cJSON_AddStringToObject(row, "capture_id", id);
	if (change->error)
		add_error(row, changes->kind, change->error, id);
	conn_row(conn, row);
}

static void change_done(struct work *work)
{
	struct changes *changes = (struct changes *)work;
	struct conn *conn = changes->conn;
	struct server *server = changes->server;
	bool asked = work->run != NULL;
	catalogue_answered(server, conn->user);
	for (size_t i = 0; i < changes->count && asked; i++)
		conclude(changes, i);
	if (!conn->closed && asked)
		conn_end(conn, NULL);
	else if (!conn->closed)
		conn_error(conn, ERROR_FAILED, LIST_SLOW_DISK, 0);
	conn_unref(conn);
	free(changes);
	retention_look(server);
}

/* Finds out what is known without the catalogue. */
static void prepare(struct conn *conn, const char *id, struct change *change)
{
	change->number = capture_id_parse(id, conn->server->user);
	change->uid = (uid_t)-1;
	if (!change->number) {
		change->error = ERROR_NO_CAPTURE;
		return;
	}
	const struct capture *capture = capture_find(conn->server, change->number);
	if (!capture)
		return;
	change->uid = capture->facts.who.uid;
	change->pid = capture->facts.who.pid;
	change->error = conn_may(conn, change->uid) ? ERROR_BUSY : ERROR_NOT_YOURS;
}

void change_serve(struct conn *conn, const struct change_kind *kind)
{
	const struct request *request = &client_of(conn)->request;
	size_t n = request->id_count;
	struct changes *changes = calloc(1, sizeof *changes + n * sizeof *changes->each);
	if (!changes) {
		conn_error(conn, ERROR_FAILED, "the daemon is out of memory", 0);
		return;
	}
	changes->work = (struct work){.run = change_run, .done = change_done};
	changes->kind = kind;
	changes->server = conn->server;
	changes->conn = conn_ref(conn);
	changes->keep = request->keep;
	changes->count = n;
	for (size_t i = 0; i < n; i++)
		prepare(conn, request->ids[i], &changes->each[i]);
	if (catalogue_ask(conn->server, conn->user, &changes->work))
		return;
	conn_error(conn, ERROR_FAILED, LIST_SLOW_DISK, 0);
	conn_unref(conn);
	free(changes);
}
