/* list.c - see list.h. Thread: the loop's; list_run has the catalogue's. No locks. */
#include "list.h"
#include "clients.h"
#include "daemon/catalogue/ask.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/core/connection.h"
#include "daemon/core/reply.h"
#include "daemon/core/server.h"

#include <errno.h>
#include <stdlib.h>

struct list {
	struct work work;
	const struct list_kind *kind;
	struct server *server;
	struct conn *conn; /* a reference */
	unsigned room;
	int count;
	void *rows;	     /* owned */
	uint64_t question[]; /* kind->question_bytes */
};

static int64_t list_run(struct work *work)
{
	struct list *list = (struct list *)work;
	list->rows = calloc(list->room, list->kind->row_bytes);
	list->count = list->rows ? list->kind->fetch(catalogue_of(list->server), list->question, list->rows, list->room)
				 : -ENOMEM;
	return WORK_DONE;
}

static void list_free(struct list *list)
{
	conn_unref(list->conn);
	free(list->rows);
	free(list);
}

static void send_page(struct list *list)
{
	const struct list_kind *kind = list->kind;
	struct conn *conn = list->conn;
	struct client *client = client_of(conn);
	for (int i = 0; i < list->count && !conn->closed; i++) {
		client->cursor = kind->send(conn, (char *)list->rows + (size_t)i * kind->row_bytes);
		client->left--;
	}
	if (conn->closed)
		return;
	if (list->count < 0)
		conn_error(conn, ERROR_FAILED, "the daemon cannot read its catalogue; its log says why", 0);
	else if (list->count == (int)list->room && client->left) {
		if (conn->queued < CONN_QUEUE_LOW)
			conn->produce(conn);
	} else if (kind->end)
		kind->end(conn);
	else
		conn_end(conn, NULL);
}

static void list_done(struct work *work)
{
	struct list *list = (struct list *)work;
	struct conn *conn = list->conn;
	conn->fetching = false;
	catalogue_answered(list->server, conn->user);
	if (work->run)
		send_page(list);
	else if (!conn->closed)
		conn_error(conn, ERROR_FAILED, LIST_SLOW_DISK, 0);
	list_free(list);
}

static void ask_page(struct conn *conn, const struct list_kind *kind)
{
	const struct client *client = client_of(conn);
	struct list *list = calloc(1, sizeof *list + kind->question_bytes);
	if (!list) {
		conn_error(conn, ERROR_FAILED, "the daemon is out of memory", 0);
		return;
	}
	list->work = (struct work){.run = list_run, .done = list_done};
	list->kind = kind;
	list->server = conn->server;
	list->conn = conn_ref(conn);
	list->room = client->left < kind->page ? (unsigned)client->left : kind->page;
	kind->ask(conn, client->cursor, list->question);
	conn->fetching = true;
	if (catalogue_ask(conn->server, conn->user, &list->work))
		return;
	conn->fetching = false;
	conn_error(conn, ERROR_FAILED, LIST_SLOW_DISK, 0);
	list_free(list);
}

static void produce(struct conn *conn)
{
	ask_page(conn, client_of(conn)->list);
}

void list_serve(struct conn *conn, const struct list_kind *kind)
{
	struct client *client = client_of(conn);
	client->list = kind;
	client->cursor = INT64_MAX;
	client->left = client->request.limit ? client->request.limit : kind->usual;
	conn->produce = produce;
	produce(conn);
}

void list_filter(struct conn *conn, uint64_t before, struct catalogue_filter *ret)
{
	const struct request *request = &client_of(conn)->request;
	*ret = (struct catalogue_filter){.all = conn->admin,
					 .uid = conn->peer.uid,
					 .pid = request->pid,
					 .own = conn->pid_namespace == conn->server->pid_namespace,
					 .pid_namespace = conn->pid_namespace,
					 .before = before};
	text_copy(ret->name, sizeof ret->name, request->name);
	text_copy(ret->job, sizeof ret->job, request->job);
	text_copy(ret->label, sizeof ret->label, request->label);
}
