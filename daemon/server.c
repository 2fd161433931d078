/* server.c - see server.h. Thread: the loop's. No locks. */
#include "server.h"
#include "capture.h"
#include "log.h"
#include "registry.h"
#include "serve.h"
#include "trigger.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Packets read of one connection before others have their turn. */
#define READS_MAX 16
/* How long captures may take to end when the daemon is told to; those that are derived when another is to follow. */
#define STOP_NS 4000000000ull
#define PARK_NS 10000000000ull
/* What the threads behind the loop may take after that. */
#define STOP_MORE_NS 10000000000ull
#define TICK_FAST_NS 50000000ull
#define TICK_SLOW_NS 1000000000ull

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

void error_text(enum error error, const char *detail, char ret[SENTENCE_BYTES])
{
	const char *format = error_sentence(error);
	size_t at = 0;
	ret[0] = 0;
	for (const char *p = format ? format : "%s"; *p && at + 1 < SENTENCE_BYTES;) {
		if (p[0] == '%' && p[1] == 's') {
			text_copy(ret + at, SENTENCE_BYTES - at, detail);
			at += strlen(ret + at);
			p += 2;
		} else {
			ret[at++] = *p++;
			ret[at] = 0;
		}
	}
}

/* --- connections --- */

static void conn_ready(uv_poll_t *poll, int status, int events);

struct conn *conn_ref(struct conn *conn)
{
	conn->references++;
	return conn;
}

void conn_unref(struct conn *conn)
{
	if (--conn->references == 0)
		free(conn);
}

bool conn_may(const struct conn *conn, uid_t uid)
{
	return conn->admin || conn->peer.uid == uid;
}

static void conn_poll_adjust(struct conn *conn)
{
	if (conn->closed)
		return;
	/* What a client asks from now on is for the next daemon: it finds the connection closed and the request not read. */
	bool deaf = conn->busy || (conn->server->parking && conn->kind != CONN_AGENT);
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
	if (conn->kind == CONN_UNKNOWN)
		server->unidentified--;
	if (conn->trigger)
		trigger_unfollow(conn->trigger);
	conn->trigger = NULL;
	if (conn->probing)
		server->probes--;
	conn->probing = NULL;
	if (conn->process)
		registry_gone(conn->process);
	conn->process = NULL;
	while (conn->first)
		drop_packet(conn);
	request_deinit(&conn->request);
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

void conn_send(struct conn *conn, const void *bytes, size_t n, int fd)
{
	if (conn->closed)
		return;
	if (!conn->first) {
		int error = socket_send(conn->fd, bytes, n, &fd, fd >= 0 ? 1 : 0);
		if (error == 0)
			return;
		if (error != -EAGAIN && error != -EWOULDBLOCK && error != -ENOBUFS && error != -ETOOMANYREFS)
			return; /* the peer is gone: its end is read next */
	}
	if (conn->queued + n > SERVER_QUEUE_BYTES) {
		log_line("uid %u pid %d does not read: its connection is closed", conn->peer.uid, conn->peer.pid);
		/* Not here, where callers still use it: the next event of the socket ends it. */
		shutdown(conn->fd, SHUT_RDWR);
		return;
	}
	struct packet *packet = malloc(sizeof *packet + n);
	int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
	if (!packet || (fd >= 0 && copy < 0)) {
		free(packet);
		if (copy >= 0)
			close(copy);
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

cJSON *conn_row_new(const char *word)
{
	cJSON *row = cJSON_CreateObject();
	cJSON_AddStringToObject(row, "row", word);
	return row;
}

static void send_json(struct conn *conn, cJSON *object)
{
	char *text = cJSON_PrintUnformatted(object);
	size_t n = text ? strlen(text) : 0;
	if (n && n <= LIMIT_PACKET_BYTES)
		conn_send(conn, text, n, -1);
	else
		log_line("a row for uid %u is larger than a packet and was left out", conn->peer.uid);
	free(text);
	cJSON_Delete(object);
}

void conn_row(struct conn *conn, cJSON *row)
{
	if (conn->closed)
		cJSON_Delete(row);
	else
		send_json(conn, row);
}

void conn_end(struct conn *conn, cJSON *end)
{
	if (!end)
		end = cJSON_CreateObject();
	cJSON_AddBoolToObject(end, "end", true);
	conn_row(conn, end);
	if (conn->closed)
		return;
	conn->produce = NULL;
	conn->busy = false;
	request_deinit(&conn->request);
	conn_poll_adjust(conn);
}

void conn_error(struct conn *conn, enum error error, const char *detail, int32_t pid)
{
	char sentence[SENTENCE_BYTES];
	error_text(error, detail, sentence);
	cJSON *end = cJSON_CreateObject(), *object = cJSON_AddObjectToObject(end, "error");
	cJSON_AddStringToObject(object, "code", error_word(error));
	cJSON_AddStringToObject(object, "message", sentence);
	/* One that came to be a trigger has taken the request. */
	if (conn->request.op == REQUEST_trigger)
		metrics_triggered(&conn->server->metrics, error);
	if (pid > 0)
		cJSON_AddNumberToObject(object, "pid", pid);
	conn_end(conn, end);
}

static void identify(struct conn *conn, enum conn_kind kind)
{
	conn->kind = kind;
	conn->server->unidentified--;
}

static void agent_packet(struct conn *conn, const char *packet, size_t n, const int *fds, unsigned nfds)
{
	union message_any message;
	const char *why = "";
	if (message_check(packet, n, 1, &message, &why)) {
		log_line("pid %d uid %u sent what no agent sends (%s): its connection is closed", conn->peer.pid,
			 conn->peer.uid, why ? why : "malformed");
		conn_close(conn);
		return;
	}
	registry_message(conn, &message, nfds ? fds[0] : -1);
}

/* Returns false when there is nothing more to read, or nobody to read from. */
static bool conn_read(struct conn *conn)
{
	struct server *server = conn->server;
	int fds[LIMIT_PACKET_FDS];
	unsigned nfds = LIMIT_PACKET_FDS;
	ssize_t n = socket_receive(conn->fd, server->packet, sizeof server->packet, fds, &nfds, MSG_DONTWAIT);
	if (n == -EAGAIN || n == -EWOULDBLOCK || n == -EINTR)
		return false;
	if (n == -EMSGSIZE && conn->kind != CONN_AGENT)
		conn_error(conn, ERROR_PROTOCOL, "a request may have 65536 bytes", 0);
	if (n <= 0) {
		conn_close(conn);
		return false;
	}
	if (conn->kind == CONN_UNKNOWN)
		identify(conn, server->packet[0] == '{' ? CONN_CLIENT : CONN_AGENT);
	if (conn->kind == CONN_AGENT)
		agent_packet(conn, server->packet, (size_t)n, fds, nfds);
	else
		serve_packet(conn, server->packet, (size_t)n, nfds ? fds[0] : -1);
	for (unsigned i = 0; i < nfds; i++)
		close(fds[i]);
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
		if (error == -EAGAIN || error == -EWOULDBLOCK || error == -ENOBUFS || error == -ETOOMANYREFS)
			break;
		if (error) {
			conn_close(conn);
			return;
		}
		drop_packet(conn);
	}
	if (conn->produce && !conn->fetching && conn->queued < SERVER_QUEUE_LOW)
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
		if (events & UV_READABLE)
			for (int i = 0; i < READS_MAX && conn_read(conn); i++)
				;
		if (!conn->closed && events & UV_WRITABLE)
			conn_write(conn);
		conn_poll_adjust(conn);
	}
	conn_unref(conn);
}

static bool of_group(int fd, const struct ucred *peer, gid_t group)
{
	if (group == (gid_t)-1)
		return false;
	if (peer->gid == group)
		return true;
	gid_t groups[256];
	socklen_t n = sizeof groups;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &n))
		return false;
	for (size_t i = 0; i < n / sizeof *groups; i++)
		if (groups[i] == group)
			return true;
	return false;
}

static unsigned connections_of(const struct server *server, uid_t uid)
{
	unsigned n = 0;
	for (const struct conn *conn = server->conns; conn; conn = conn->next)
		n += conn->peer.uid == uid;
	return n;
}

static void accept_ready(uv_poll_t *poll, int status, int events)
{
	struct server *server = poll->data;
	(void)status, (void)events;
	for (int i = 0; i < READS_MAX; i++) {
		int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			/* Out of descriptors: the peer waits in the backlog; without a pause this would spin. */
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
				usleep(1000);
			return;
		}
		struct ucred peer;
		socklen_t n = sizeof peer;
		struct conn *conn = NULL;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
		    server->conn_count < SERVER_CONNECTIONS &&
		    (peer.uid == 0 || connections_of(server, peer.uid) < SERVER_CONNECTIONS_USER))
			conn = calloc(1, sizeof *conn);
		if (!conn) {
			close(fd);
			continue;
		}
		conn->server = server;
		conn->fd = fd;
		conn->peer = peer;
		conn->references = 1;
		conn->since = clock_monotonic();
		conn->admin = peer.uid == 0 || (!server->user && of_group(fd, &peer, server->group));
		if (uv_poll_init(&server->loop, &conn->poll, fd)) {
			close(fd);
			free(conn);
			continue;
		}
		conn->poll.data = conn;
		conn->next = server->conns;
		if (conn->next)
			conn->next->previous = conn;
		server->conns = conn;
		server->conn_count++;
		server->unidentified++;
		conn_poll_adjust(conn);
		server_tick_adjust(server);
	}
}

/* --- time --- */

static void tick(uv_timer_t *timer)
{
	struct server *server = timer->data;
	uint64_t now = clock_monotonic();
	metrics_tick(&server->metrics, now, server->tick_ns);
	for (struct capture *capture = server->captures, *next; capture; capture = next) {
		next = capture->next;
		capture_tick(capture, now);
	}
	for (struct trigger *trigger = server->triggers, *next; trigger; trigger = next) {
		next = trigger->next;
		trigger_tick(trigger, now);
	}
	for (struct conn *conn = server->conns, *next; conn; conn = next) {
		next = conn->next;
		if (conn->kind == CONN_UNKNOWN && now > conn->since + SERVER_IDENTIFY_NS)
			conn_close(conn);
		else if (conn->probing)
			serve_tick(conn, now);
	}
	server_stop_if_done(server);
	server_tick_adjust(server);
}

/* Is there something that is worth to be waited for? Orphans are the next daemon's as they were ours. */
static bool has_work(const struct server *server)
{
	for (const struct capture *capture = server->captures; capture; capture = capture->next)
		if (capture->state != STATE_ORPHAN)
			return true;
	for (const struct conn *conn = server->conns; conn && server->parking; conn = conn->next)
		if (conn->busy && !conn->trigger)
			return true;
	return false;
}

void server_stop_if_done(struct server *server)
{
	if (!server->stopping)
		return;
	for (struct capture *capture = server->captures; capture && server->parking; capture = capture->next)
		if (capture->state == STATE_RUNNING)
			capture_park(capture);
	if (!has_work(server) || clock_monotonic() > server->stop_at)
		uv_stop(&server->loop);
}

void server_tick_adjust(struct server *server)
{
	uint64_t wanted = 0;
	service_changed(server);
	if (server->unidentified || server->triggers || server->probes || server->captures)
		wanted = TICK_SLOW_NS;
	if (server->probes || server->stopping)
		wanted = TICK_FAST_NS;
	for (const struct capture *capture = server->captures; capture && wanted != TICK_FAST_NS;
	     capture = capture->next)
		if (capture->state != STATE_ORPHAN)
			wanted = TICK_FAST_NS;
	if (wanted == server->tick_ns)
		return;
	server->tick_ns = wanted;
	server->metrics.tick_due = wanted ? clock_monotonic() + wanted : 0;
	if (wanted)
		uv_timer_start(&server->tick, tick, wanted / 1000000u, wanted / 1000000u);
	else
		uv_timer_stop(&server->tick);
}

static void stop(uv_signal_t *signal, int number);

static void hangup(uv_signal_t *signal, int number)
{
	struct server *server = signal->data;
	/* Whoever started it in a terminal has left; for all others it is the word to read the settings again. */
	int terminal = server->service.managed ? -1 : open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
	if (terminal >= 0) {
		close(terminal);
		stop(signal, number);
		return;
	}
	if (!server->stopping)
		service_reload(server);
}

static void stop(uv_signal_t *signal, int number)
{
	struct server *server = signal->data;
	if (server->stopping) {
		uv_stop(&server->loop);
		return;
	}
	log_line("signal %d: ending", number);
	server->stopping = true;
	server->parking = number == SIGTERM && (server->service.managed || !server->user);
	uint64_t most = server->parking ? PARK_NS : STOP_NS;
	server->stop_at = clock_monotonic() + most;
	uv_poll_stop(&server->listener);
	service_stopping(server, most + STOP_MORE_NS);
	if (server->parking) {
		for (struct conn *conn = server->conns; conn; conn = conn->next)
			conn_poll_adjust(conn);
		server_stop_if_done(server);
		server_tick_adjust(server);
		return;
	}
	for (struct trigger *trigger = server->triggers; trigger; trigger = trigger->next)
		trigger->wait_until = 0;
	for (struct capture *capture = server->captures; capture; capture = capture->next)
		if (capture_is_running(capture))
			capture_cancel(capture, REASON_DAEMON);
	server_tick_adjust(server);
}

/* --- life --- */

static void wake(void *context)
{
	struct server *server = context;
	uv_async_send(&server->async);
}

static void outbox_ready(uv_async_t *async)
{
	struct server *server = async->data;
	if (work_outbox_run(&server->outbox))
		metrics_late(&server->metrics, server->outbox.late);
	server_stop_if_done(server);
	server_tick_adjust(server);
}

int server_init(struct server *server)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned ingest = cores < 2 ? 2 : cores > WORK_THREADS_MAX ? WORK_THREADS_MAX : (unsigned)cores;
	unsigned finish = cores < 4 ? 2 : 4;
	int error = uv_loop_init(&server->loop);
	if (error)
		return error;
	uv_async_init(&server->loop, &server->async, outbox_ready);
	server->async.data = server;
	uv_timer_init(&server->loop, &server->tick);
	server->tick.data = server;
	work_outbox_init(&server->outbox, wake, server);
	error = work_pool_init(&server->ingest_pool, ingest, &server->outbox);
	if (!error)
		error = work_pool_init(&server->finish_pool, finish, &server->outbox);
	if (!error)
		error = catalogue_start(&server->catalogue, &server->outbox);
	if (error)
		return error;
	uv_poll_init(&server->loop, &server->listener, server->listen_fd);
	server->listener.data = server;
	uv_poll_start(&server->listener, UV_READABLE, accept_ready);
	static const int numbers[3] = {SIGTERM, SIGINT, SIGHUP};
	for (int i = 0; i < 3; i++) {
		uv_signal_init(&server->loop, &server->signals[i]);
		server->signals[i].data = server;
		uv_signal_start(&server->signals[i], numbers[i] == SIGHUP ? hangup : stop, numbers[i]);
	}
	metrics_start(server);
	service_ready(server);
	return 0;
}

void server_run(struct server *server)
{
	server_tick_adjust(server);
	uv_run(&server->loop, UV_RUN_DEFAULT);
}

void server_deinit(struct server *server)
{
	/* Captures that could not end in time stay as partial files: the next daemon takes them up. */
	server->closing = true;
	for (struct capture *capture = server->captures; capture; capture = capture->next) {
		capture->process = NULL;
		capture->trigger = NULL;
	}
	metrics_stop(server);
	while (server->conns)
		conn_close(server->conns);
	work_pool_deinit(&server->ingest_pool);
	if (server->parking && work_pool_works(&server->finish_pool)) {
		/* Its rows are all in its file, and the next daemon does it over: nobody waits for it in a restart. */
		log_line("ended while a capture is put into order; the next daemon does that anew");
		catalogue_deinit(&server->catalogue);
		metrics_deinit(server);
		_exit(0);
	}
	work_pool_deinit(&server->finish_pool);
	work_outbox_run(&server->outbox);
	catalogue_deinit(&server->catalogue);
	metrics_deinit(server);
	work_outbox_run(&server->outbox);
	uv_close((uv_handle_t *)&server->listener, NULL);
	uv_close((uv_handle_t *)&server->async, NULL);
	uv_close((uv_handle_t *)&server->tick, NULL);
	for (int i = 0; i < 3; i++)
		uv_close((uv_handle_t *)&server->signals[i], NULL);
	service_deinit(server);
	uv_run(&server->loop, UV_RUN_DEFAULT);
	while (server->triggers)
		trigger_free(server->triggers);
	while (server->captures) {
		struct capture *capture = server->captures;
		server->captures = capture->next;
		ingest_free(capture->ingest);
		free(capture);
	}
	int error = uv_loop_close(&server->loop);
	assert(error == 0);
	(void)error;
	work_outbox_deinit(&server->outbox);
	close(server->listen_fd);
	if (!server->service.handed)
		unlink(server->socket_path);
}

struct audit_work {
	struct work work;
	struct server *server;
	uid_t uid;
	pid_t pid;
	char action[16], subject[160], outcome[64];
};

static int64_t audit_run(struct work *work)
{
	struct audit_work *audit = (struct audit_work *)work;
	catalogue_audit(&audit->server->catalogue, audit->uid, audit->pid, audit->action, audit->subject,
			audit->outcome);
	free(audit);
	return WORK_DONE;
}

void server_audit(struct server *server, const struct ucred *by, const char *action, const char *subject,
		  const char *outcome)
{
	metrics_audited(&server->metrics, outcome);
	struct audit_work *audit = calloc(1, sizeof *audit);
	if (!audit)
		return;
	audit->work.run = audit_run;
	audit->server = server;
	audit->uid = by->uid;
	audit->pid = by->pid;
	text_copy(audit->action, sizeof audit->action, action);
	text_copy(audit->subject, sizeof audit->subject, subject);
	text_copy(audit->outcome, sizeof audit->outcome, outcome);
	if (!catalogue_submit(&server->catalogue, &audit->work))
		free(audit);
}
