/* get.c - see get.h. Thread: the loop's; get_run has the catalogue's. No locks. */
#include "get.h"
#include "proto/base/clock.h"
#include "clients.h"
#include "daemon/catalogue/ask.h"
#include "daemon/catalogue/audit.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/core/connection.h"
#include "daemon/core/namespaces.h"
#include "daemon/core/reply.h"
#include "daemon/core/server.h"
#include "list.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void get_parse(struct parse *parse, struct request *request, const cJSON *object)
{
	parse_text(parse, object, "capture_id", request->capture_id, sizeof request->capture_id);
	if (!*request->capture_id)
		parse_wrong(parse, "capture_id", "is missing");
}

static int64_t get_run(struct work *work)
{
	struct get *get = (struct get *)work;
	struct catalogue *catalogue = catalogue_of(get->server);
	get->found = catalogue_get(catalogue, get->number, &get->facts);
	if (get->found == 0)
		get->was_deleted = catalogue_get_deleted(catalogue, get->number, &get->deleted) == 1;
	if (get->found == 1 && conn_may(get->conn, get->facts.who.uid) && get->facts.status >= CAPTURE_COMPLETE)
		get->kind->look(get);
	return WORK_DONE;
}

static void get_free(struct get *get)
{
	if (get->fd >= 0)
		close(get->fd);
	conn_unref(get->conn);
	free(get->text);
	free(get);
}

/* "17 any more: alice deleted it at ... (...)", as the detail of NO_CAPTURE. */
static void deleted_detail(const struct server *server, const struct deleted_facts *facts, char *to, size_t to_bytes)
{
	char id[ID_BYTES], at[TIME_TEXT_BYTES];
	capture_id_text(facts->number, server->user, id);
	time_text(facts->at, at);
	snprintf(to, to_bytes, "%s any more: %s deleted it at %s (%s)", id,
		 facts->by_daemon ? "the daemon" : facts->by_user, at, facts->reason);
}

static void answer(struct conn *conn, struct get *get)
{
	const struct capture_facts *facts = &get->facts;
	char id[ID_BYTES], detail[2 * SENTENCE_BYTES];
	capture_id_text(get->number, get->server->user, id);
	if (get->was_deleted && conn_may(conn, get->deleted.uid)) {
		deleted_detail(conn->server, &get->deleted, detail, sizeof detail);
		conn_error(conn, ERROR_NO_CAPTURE, detail, 0);
	} else if (get->found != 1) {
		conn_error(conn, ERROR_NO_CAPTURE, id, 0);
	} else if (!conn_may(conn, facts->who.uid)) {
		snprintf(detail, sizeof detail, "capture %s", id);
		audit_refused(conn, get->kind->action, id, ERROR_NOT_YOURS, facts->who.pid, facts->who.uid);
		conn_error(conn, ERROR_NOT_YOURS, detail, 0);
	} else if (facts->status < CAPTURE_COMPLETE) {
		/* The error's sentence is about a process, so the detail names one. */
		pid_t pid = namespace_pid(&facts->who, conn->server->pid_namespace, conn->pid_namespace);
		snprintf(detail, sizeof detail, "%d (capture %s)", pid, id);
		if (pid <= 0)
			snprintf(detail, sizeof detail, "%s (capture %s)", facts->who.name, id);
		conn_error(conn, ERROR_BUSY, detail, pid);
	} else {
		get->kind->send(conn, get);
	}
}

static void get_done(struct work *work)
{
	struct get *get = (struct get *)work;
	struct conn *conn = get->conn;
	catalogue_answered(get->server, conn->user);
	if (!conn->closed && work->run)
		answer(conn, get);
	else if (!conn->closed)
		conn_error(conn, ERROR_FAILED, LIST_SLOW_DISK, 0);
	get_free(get);
}

void get_serve(struct conn *conn, const struct get_kind *kind)
{
	const struct request *request = &client_of(conn)->request;
	uint64_t number = capture_id_parse(request->capture_id, conn->server->user);
	if (!number) {
		/* A number alone names a capture of the system's daemon. A user may mean a capture of their own daemon,
		 * so the answer has that id, too. */
		char detail[2 * sizeof request->capture_id + 32];
		bool own = capture_id_parse(request->capture_id, false) != 0;
		snprintf(detail, sizeof detail, own ? "%s (your own daemon's is u%s)" : "%s", request->capture_id,
			 request->capture_id);
		conn_error(conn, ERROR_NO_CAPTURE, detail, 0);
		return;
	}
	struct get *get = calloc(1, sizeof *get);
	if (!get) {
		conn_error(conn, ERROR_FAILED, "the daemon is out of memory", 0);
		return;
	}
	get->work = (struct work){.run = get_run, .done = get_done};
	get->kind = kind;
	get->server = conn->server;
	get->conn = conn_ref(conn);
	get->number = number;
	get->fd = -1;
	if (catalogue_ask(conn->server, conn->user, &get->work))
		return;
	conn_error(conn, ERROR_FAILED, LIST_SLOW_DISK, 0);
	get_free(get);
}
