/* server.c - see server.h. Thread: the loop's. No locks. */
#include "server.h"
#include "descriptors.h"
#include "accept.h"
#include "daemon/capture/capture.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/capture/registry.h"
#include "daemon/ops/serve.h"
#include "daemon/capture/trigger.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
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
	if (--conn->references)
		return;
	quota_user_unref(conn->user);
	free(conn->refusal);
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
	/* A client that leaves its answers unread is not asked for more; nor is one whose request is served. What one asks while
	 * the daemon ends is for the next: it finds the connection closed and the request not read. */
	bool deaf = conn->busy || (conn->first && conn->kind == CONN_CLIENT) ||
		    (conn->server->parking && conn->kind != CONN_AGENT);
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
		if (error != -EAGAIN && error != -EWOULDBLOCK && error != -ENOBUFS)
			return; /* the peer is gone: its end is read next */
	}
	if (conn->queued + n > SERVER_QUEUE_BYTES || !quota_queue(conn->user, (int64_t)n)) {
		audit_refused(conn, "connection", "it does not read what it is sent, and was closed", ERROR_PROTOCOL, 0,
			      (uid_t)-1);
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
		counters_triggered(&conn->server->counters, error);
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
		char subject[160];
		snprintf(subject, sizeof subject, "it sent what no agent sends (%s), and was closed",
			 why ? why : "malformed");
		audit_refused(conn, "connection", subject, ERROR_PROTOCOL, 0, (uid_t)-1);
		conn_close(conn);
		return;
	}
	registry_message(conn, &message, nfds ? fds[0] : -1);
}

/* In the peer's own language, and that was all. */
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
		audit_refused(conn, "connection", "its packet was larger than any may be, and it was closed",
			      ERROR_PROTOCOL, 0, (uid_t)-1);
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
		agent_packet(conn, server->packet, (size_t)n, fds, nfds);
	else
		serve_packet(conn, server->packet, (size_t)n, nfds ? fds[0] : -1);
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
		/* A user whose share of this turn is used up is served in the next: the socket stays ready. */
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

/* --- time --- */

static void tick(uv_timer_t *timer)
{
	struct server *server = timer->data;
	uint64_t now = clock_monotonic();
	counters_tick(&server->counters, now, server->tick_ns);
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
	accept_resume(server);
	quota_tick(server, now);
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
	if (server->unidentified || server->triggers || server->probes || server->captures || server->left_out ||
	    server->accept_paused)
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
	server->counters.tick_due = wanted ? clock_monotonic() + wanted : 0;
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
	int terminal = server->manager.managed ? -1 : open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
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
	server->parking = number == SIGTERM && (server->manager.managed || !server->user);
	uint64_t most = server->parking ? PARK_NS : STOP_NS;
	server->stop_at = clock_monotonic() + most;
	uv_poll_stop(&server->listener);
	server->accept_paused = false;
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

/* So many captures leave something to give back while others go on: when a quarter of them is left. */
#define TRIM_MANY 16u

/* What many captures took at a time is in pieces all over the heap; the system has it back when they have gone. */
static int64_t trim_run(struct work *work)
{
	(void)work;
	malloc_trim(0);
	return WORK_DONE;
}

static void trimmed(struct work *work)
{
	struct server *server = (struct server *)((char *)work - offsetof(struct server, trim));
	server->trimming = false;
	/* What has gone meanwhile. */
	server_trim(server);
}

void server_trim(struct server *server)
{
	unsigned peak = server->trim_peak, left = server->capture_count;
	if (peak == 0 || (left && (peak < TRIM_MANY || left > peak / 4)) || server->trimming || server->closing)
		return;
	server->trimming = true;
	server->trim_peak = left;
	server->trim = (struct work){.run = trim_run, .done = trimmed};
	work_submit(&server->finish_pool, &server->trim);
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
		counters_late(&server->counters, server->outbox.late);
	server_stop_if_done(server);
	server_tick_adjust(server);
}

/* After each round of the loop everybody has their share again. */
static void next_turn(uv_check_t *check)
{
	struct server *server = check->data;
	server->quota.turn++;
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
	uv_check_init(&server->loop, &server->turned);
	server->turned.data = server;
	uv_check_start(&server->turned, next_turn);
	uv_unref((uv_handle_t *)&server->turned);
	counters_init(&server->counters);
	quota_init(server);
	work_outbox_init(&server->outbox, wake, server);
	error = work_pool_init(&server->ingest_pool, ingest, &server->outbox);
	if (!error)
		error = work_pool_init(&server->finish_pool, finish, &server->outbox);
	if (!error)
		work_pool_may_grow(&server->finish_pool);
	if (!error)
		error = catalogue_start(&server->catalogue, &server->outbox);
	if (!error)
		error = retention_init(server);
	if (error)
		return error;
	uv_poll_init(&server->loop, &server->listener, server->listen_fd);
	server->listener.data = server;
	accept_start(server);
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
	/* What was left out of the audit log until now is told. */
	quota_tick(server, UINT64_MAX);
	work_pool_deinit(&server->ingest_pool);
	if (server->parking && work_pool_works(&server->finish_pool)) {
		/* Its rows are all in its file, and the next daemon does it over: nobody waits for it in a restart. */
		log_line("ended while a capture is put into order; the next daemon does that anew");
		catalogue_deinit(&server->catalogue);
		metrics_deinit(server);
		_exit(0);
	}
	work_pool_deinit(&server->finish_pool);
	/* Whoever serves a file that is never closed does not keep us from ending. */
	if (server->closing_pool_runs && !work_pool_works(&server->closing_pool))
		work_pool_deinit(&server->closing_pool);
	work_outbox_run(&server->outbox);
	catalogue_deinit(&server->catalogue);
	metrics_deinit(server);
	work_outbox_run(&server->outbox);
	retention_deinit(server);
	uv_close((uv_handle_t *)&server->listener, NULL);
	uv_close((uv_handle_t *)&server->async, NULL);
	uv_close((uv_handle_t *)&server->tick, NULL);
	uv_close((uv_handle_t *)&server->turned, NULL);
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
	quota_deinit(server);
	accept_stop(server);
	close(server->listen_fd);
	if (!server->manager.handed)
		unlink(server->socket_path);
}
