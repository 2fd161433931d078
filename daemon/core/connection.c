/* connection.c - see connection.h. Thread: the loop's. No locks. */
#include "connection.h"
#include "proto/base/clock.h"
#include "calls.h"
#include "descriptors.h"
#include "proto/limits.h"
#include "proto/message.h"
#include "proto/socket.h"
#include "reply.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Packets read of one connection before others have their turn. */
#define READS_MAX 16

struct packet {
	struct packet *next;
	int fd; /* owned; -1 = none */
	size_t n;
	char data[];
};

static void conn_ready(uv_poll_t *poll, int status, int events);

struct conn *conn_ref(struct conn *conn)
{
	conn->references++;
	return conn;
}

void conn_unref(struct conn *conn)
{
	if (--conn->references)
		return;
	if (conn->free_owner)
		conn->free_owner(conn->owner);
	quota_user_unref(conn->user);
	free(conn->refusal);
	free(conn);
}

bool conn_may(const struct conn *conn, uid_t uid)
{
	return conn->admin || conn->peer.uid == uid;
}

void conn_poll_adjust(struct conn *conn)
{
	if (conn->closed)
		return;
	/* A client is not read from while it leaves answers unread, or while its request is served. While the daemon ends
	 * for another one to follow, no new request is read: the client finds the connection closed and asks the next
	 * daemon. */
	bool deaf = conn->busy || (conn->first && conn->kind == CONN_CLIENT) ||
		    (conn->server->handing_off && conn->kind != CONN_AGENT);
	int events = deaf ? UV_DISCONNECT : UV_READABLE;
	if (conn->first)
		events |= UV_WRITABLE;
	if (events == conn->events)
		return;
	conn->events = events;
	uv_poll_start(&conn->poll, events, conn_ready);
}

static void drop_packet(struct conn *conn)
{
	struct packet *packet = conn->first;
	conn->first = packet->next;
	if (!conn->first)
		conn->last = NULL;
	conn->queued -= packet->n;
	quota_queue(conn->user, -(int64_t)packet->n);
	if (packet->fd >= 0)
		close(packet->fd);
	free(packet);
}

static void conn_handle_closed(uv_handle_t *handle)
{
	struct conn *conn = handle->data;
	close(conn->fd);
	conn_unref(conn);
}

void conn_close(struct conn *conn)
{
	struct server *server = conn->server;
	if (conn->closed)
		return;
	conn->closed = true;
	if (conn->counted)
		quota_disconnect(conn->user);
	else
		quota_refused(server, conn->user);
	if (conn->agent_counted)
		conn->user->agents--;
	if (conn->kind == CONN_UNKNOWN)
		server->unidentified--;
	server->calls->closed(conn);
	while (conn->first)
		drop_packet(conn);
	if (conn->previous)
		conn->previous->next = conn->next;
	else
		server->conns = conn->next;
	if (conn->next)
		conn->next->previous = conn->previous;
	server->conn_count--;
	uv_poll_stop(&conn->poll);
	uv_close((uv_handle_t *)&conn->poll, conn_handle_closed);
	server_tick_adjust(server);
}

static void note_refusal(struct conn *conn, const char *why)
{
	conn->server->calls->refused(conn->server, &conn->peer, conn->user, ERROR_PROTOCOL, why);
}

void conn_send(struct conn *conn, const void *bytes, size_t n, int fd)
{
	if (conn->closed)
		return;
	if (!conn->first) {
		int error = socket_send(conn->fd, bytes, n, &fd, fd >= 0 ? 1 : 0);
		if (error == 0)
			return;
		if (error != -EAGAIN && error != -EWOULDBLOCK && error != -ENOBUFS)
			return; /* the peer is gone: its end is read next */
	}
	if (conn->queued + n > CONN_QUEUE_BYTES || !quota_queue(conn->user, (int64_t)n)) {
		note_refusal(conn, "it does not read what it is sent, and was closed");
		/* Callers still use it, so it is not closed here: the socket's next event closes it. */
		shutdown(conn->fd, SHUT_RDWR);
		return;
	}
	struct packet *packet = malloc(sizeof *packet + n);
	int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
	if (!packet || (fd >= 0 && copy < 0)) {
		free(packet);
		if (copy >= 0)
			close(copy);
		quota_queue(conn->user, -(int64_t)n);
		shutdown(conn->fd, SHUT_RDWR);
		return;
	}
	*packet = (struct packet){.fd = copy, .n = n};
	memcpy(packet->data, bytes, n);
	if (conn->last)
		conn->last->next = packet;
	else
		conn->first = packet;
	conn->last = packet;
	conn->queued += n;
	conn_poll_adjust(conn);
}

static void identify(struct conn *conn, enum conn_kind kind)
{
	conn->kind = kind;
	conn->server->unidentified--;
}

/* Tells a peer that has no place why, as its kind of program understands it, and closes the connection. */
static void tell_refusal(struct conn *conn, bool client)
{
	if (client) {
		conn_error(conn, conn->refusal_error, conn->refusal, 0);
	} else {
		struct message_refuse refusal = MESSAGE_INIT(REFUSE, refuse);
		refusal.error = conn->refusal_error;
		message_text(refusal.sentence, sizeof refusal.sentence, conn->refusal);
		conn_send(conn, &refusal, sizeof refusal, -1);
	}
	conn_close(conn);
}

/* Returns false when there is nothing more to read, or nobody to read from. */
static bool conn_read(struct conn *conn)
{
	struct server *server = conn->server;
	int fds[LIMIT_PACKET_FDS];
	unsigned nfds = conn->refusal ? 0 : LIMIT_PACKET_FDS;
	ssize_t n = socket_receive(conn->fd, server->packet, sizeof server->packet, fds, &nfds, MSG_DONTWAIT);
	if (n == -EAGAIN || n == -EWOULDBLOCK || n == -EINTR)
		return false;
	descriptors_sift(conn, fds, nfds);
	if (n == -EMSGSIZE) {
		if (conn->kind != CONN_AGENT)
			conn_error(conn, ERROR_PROTOCOL, "a request may have 65536 bytes", 0);
		note_refusal(conn, "its packet was larger than any may be, and it was closed");
	}
	if (n <= 0) {
		conn_close(conn);
		return false;
	}
	if (conn->kind == CONN_UNKNOWN)
		identify(conn, server->packet[0] == '{' ? CONN_CLIENT : CONN_AGENT);
	if (conn->refusal)
		tell_refusal(conn, conn->kind == CONN_CLIENT);
	else if (conn->kind == CONN_AGENT)
		server->calls->agent_packet(conn, server->packet, (size_t)n, nfds ? fds[0] : -1);
	else
		server->calls->client_packet(conn, server->packet, (size_t)n, nfds ? fds[0] : -1);
	for (unsigned i = 0; i < nfds; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (!quota_descriptors(conn->user))
		conn_close(conn);
	return !conn->closed && !conn->busy;
}

/* What a full queue of the smallest messages may hold. */
#define DRAIN_MAX 4096

void conn_drain(struct conn *conn)
{
	conn_ref(conn);
	for (int i = 0; i < DRAIN_MAX && !conn->closed && conn_read(conn); i++)
		;
	conn_close(conn);
	conn_unref(conn);
}

static void conn_write(struct conn *conn)
{
	while (conn->first) {
		struct packet *packet = conn->first;
		int error = socket_send(conn->fd, packet->data, packet->n, &packet->fd, packet->fd >= 0 ? 1 : 0);
		if (error == -EAGAIN || error == -EWOULDBLOCK || error == -ENOBUFS)
			break;
		if (error) {
			conn_close(conn);
			return;
		}
		drop_packet(conn);
	}
	if (conn->produce && !conn->fetching && conn->queued < CONN_QUEUE_LOW)
		conn->produce(conn);
	conn_poll_adjust(conn);
}

static void conn_ready(uv_poll_t *poll, int status, int events)
{
	struct conn *conn = poll->data;
	conn_ref(conn);
	if (status < 0 || (events & UV_DISCONNECT && !(conn->events & UV_READABLE))) {
		conn_close(conn);
	} else {
		/* A user whose share of this turn is used up is served in the next turn. The socket stays ready until
		 * then. */
		bool turn = quota_turn(conn->server, conn->user);
		uint64_t began = turn ? clock_monotonic() : 0;
		if (turn && events & UV_READABLE)
			for (int i = 0; i < READS_MAX && conn_read(conn); i++)
				;
		if (turn && !conn->closed && events & UV_WRITABLE)
			conn_write(conn);
		conn_poll_adjust(conn);
		if (turn)
			quota_spent(conn->user, clock_monotonic() - began);
	}
	conn_unref(conn);
}

struct conn *conn_new(struct server *server, int fd, const struct ucred *peer, bool admin, struct quota_user *user,
		      enum error error, const char *refusal)
{
	struct conn *conn = calloc(1, sizeof *conn);
	char *sentence = error ? strdup(refusal) : NULL;
	if (!conn || (error && !sentence) || uv_poll_init(&server->loop, &conn->poll, fd)) {
		close(fd);
		free(sentence);
		free(conn);
		return NULL;
	}
	conn->server = server;
	conn->fd = fd;
	conn->peer = *peer;
	conn->admin = admin;
	conn->user = quota_user_ref(user);
	conn->counted = !error;
	conn->refusal_error = error;
	conn->refusal = sentence;
	conn->references = 1;
	conn->since = clock_monotonic();
	conn->poll.data = conn;
	conn->next = server->conns;
	if (conn->next)
		conn->next->previous = conn;
	server->conns = conn;
	server->conn_count++;
	server->unidentified++;
	conn_poll_adjust(conn);
	server_tick_adjust(server);
	return conn;
}
