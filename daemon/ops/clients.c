/* clients.c - see clients.h. Thread: the loop's. No locks. */
#include "clients.h"
#include "daemon/capture/trigger.h"
#include "daemon/core/connection.h"
#include "daemon/core/namespaces.h"
#include "daemon/core/reply.h"
#include "daemon/core/server.h"
#include "ops.h"

#include <stddef.h>
#include <stdlib.h>

struct client *client_of(const struct conn *conn)
{
	return conn->owner;
}

struct client *client_of_probe(struct probe *probe)
{
	return (struct client *)((char *)probe - offsetof(struct client, probe));
}

static void client_free(void *owner)
{
	struct client *client = owner;
	request_deinit(&client->request);
	free(client);
}

static void refuse(struct conn *conn, enum error error, const char *sentence)
{
	const struct op *op = client_of(conn)->request.op;
	if (op && op->refused)
		op->refused(conn->server, error);
	conn_error(conn, error, sentence, 0);
}

/* Done once, by the first request. */
static void locate(struct conn *conn, int fd)
{
	if (conn->located)
		return;
	conn->pid_namespace = namespace_of_caller(conn->server->pid_namespace, conn->peer.pid, fd);
	conn->located = true;
	/* To the kernel, root in a container is root, and the groups that it has given itself are groups of the
	 * machine. The daemon does not count them as an administrator's. */
	conn->admin = conn->admin && conn->pid_namespace == conn->server->pid_namespace;
}

void client_packet(struct conn *conn, const char *packet, size_t n, int fd)
{
	if (!conn->owner) {
		struct client *client = calloc(1, sizeof *client);
		if (!client) {
			conn_close(conn);
			return;
		}
		client->conn = conn;
		conn->owner = client;
		conn->free_owner = client_free;
	}
	struct request *request = &client_of(conn)->request;
	char sentence[SENTENCE_BYTES];
	conn->busy = true;
	enum error error = request_parse(request, packet, n, sentence, sizeof sentence);
	if (error) {
		refuse(conn, error, sentence);
	} else if (!namespace_knows_uid(conn->peer.uid)) {
		refuse(conn, ERROR_UNAVAILABLE, NAMESPACE_UID_SENTENCE);
	} else {
		locate(conn, fd);
		request->op->serve(conn, request, packet, n);
	}
}

void client_answered(struct conn *conn)
{
	if (conn->owner)
		request_deinit(&client_of(conn)->request);
}

void client_closed(struct conn *conn)
{
	trigger_unfollow(conn);
	if (conn->owner)
		probe_cancel(&client_of(conn)->probe);
}
