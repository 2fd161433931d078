/* listener.c - see listener.h. Thread: the loop's. No locks.
 *
 * A connection: READING its request, WAITING for the text, WRITING the answer, CLOSING (all is sent; what the peer still
 * says is thrown away until it closes, as a reset could take the answer back). */
#include "listener.h"
#include "proto/base/clock.h"
#include "http.h"
#include "metrics.h"
#include "proto/base/log.h"
#include "daemon/core/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One Prometheus needs one. Where all are taken, a new one replaces the one that has been silent longest: a user who
 * opens many and says nothing keeps nobody away. */
#define CONNECTIONS 16
#define READ_NS 5000000000ull
#define WRITE_NS 10000000000ull
#define CLOSE_NS 1000000000ull
#define LOOK_MS 500

enum state { READING, WAITING, WRITING, CLOSING };

struct visitor {
	uv_tcp_t tcp;
	uv_write_t write;
	uv_shutdown_t shutdown;
	struct listener *listener;
	struct visitor *next, *previous;
	enum state state;
	bool closed, head_only;
	uint64_t since, deadline; /* CLOCK_MONOTONIC ns */
	char *answer;
	size_t n;
	char head[HTTP_HEAD_BYTES + 1];
};

struct listener {
	struct server *server;
	uv_tcp_t tcp;
	uv_timer_t timer; /* runs while there are visitors */
	struct visitor *visitors;
	unsigned count, handles;
	char waste[4096];
};

static void handle_closed(uv_handle_t *handle)
{
	struct listener *listener = handle->data;
	if (--listener->handles == 0)
		free(listener);
}

static void visitor_closed(uv_handle_t *handle)
{
	struct visitor *visitor = handle->data;
	free(visitor->answer);
	free(visitor);
}

static void visitor_close(struct visitor *visitor)
{
	struct listener *listener = visitor->listener;
	if (visitor->closed)
		return;
	visitor->closed = true;
	metrics_forget(listener->server, visitor);
	if (visitor->previous)
		visitor->previous->next = visitor->next;
	else
		listener->visitors = visitor->next;
	if (visitor->next)
		visitor->next->previous = visitor->previous;
	if (--listener->count == 0)
		uv_timer_stop(&listener->timer);
	uv_close((uv_handle_t *)&visitor->tcp, visitor_closed);
}

static void shut(uv_shutdown_t *shutdown, int status)
{
	struct visitor *visitor = shutdown->handle->data;
	if (status)
		visitor_close(visitor);
}

static void answered(uv_write_t *write, int status)
{
	struct visitor *visitor = write->handle->data;
	if (visitor->closed)
		return;
	visitor->state = CLOSING;
	visitor->deadline = clock_monotonic() + CLOSE_NS;
	if (status || uv_shutdown(&visitor->shutdown, (uv_stream_t *)&visitor->tcp, shut))
		visitor_close(visitor);
}

static void reply(struct visitor *visitor, int status, const char *body, size_t n)
{
	char head[320];
	int head_bytes = snprintf(head, sizeof head,
				  "HTTP/1.1 %d %s\r\n"
				  "Content-Type: text/plain; %scharset=utf-8\r\n"
				  "Content-Length: %zu\r\n"
				  "%s"
				  "X-Content-Type-Options: nosniff\r\n"
				  "Cache-Control: no-store\r\n"
				  "Connection: close\r\n\r\n",
				  status, http_reason(status), status == 200 ? "version=0.0.4; " : "", n,
				  status == 405 ? "Allow: GET, HEAD\r\n" : "");
	visitor->answer = malloc((size_t)head_bytes + n);
	if (!visitor->answer) {
		visitor_close(visitor);
		return;
	}
	memcpy(visitor->answer, head, (size_t)head_bytes);
	if (!visitor->head_only && n)
		memcpy(visitor->answer + head_bytes, body, n);
	visitor->state = WRITING;
	visitor->deadline = clock_monotonic() + WRITE_NS;
	uv_buf_t buffer = uv_buf_init(visitor->answer, (unsigned)((size_t)head_bytes + (visitor->head_only ? 0 : n)));
	if (uv_write(&visitor->write, (uv_stream_t *)&visitor->tcp, &buffer, 1, answered))
		visitor_close(visitor);
}

static void refuse(struct visitor *visitor, int status)
{
	char body[128];
	snprintf(body, sizeof body, "%d %s; the metrics are at /metrics\n", status, http_reason(status));
	reply(visitor, status, body, strlen(body));
}

static void text_ready(void *context, const char *text, size_t n)
{
	struct visitor *visitor = context;
	if (text)
		reply(visitor, 200, text, n);
	else
		refuse(visitor, 500);
}

static void room_for(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
	struct visitor *visitor = handle->data;
	(void)suggested;
	if (visitor->state == READING)
		*ret = uv_buf_init(visitor->head + visitor->n, (unsigned)(sizeof visitor->head - visitor->n));
	else
		*ret = uv_buf_init(visitor->listener->waste, sizeof visitor->listener->waste);
}

static void heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
	struct visitor *visitor = stream->data;
	struct http_request request;
	(void)buffer;
	if (n == 0)
		return;
	/* A peer that has closed only its own direction still gets the answer. */
	if (n < 0 && (n != UV_EOF || visitor->state == READING || visitor->state == CLOSING)) {
		visitor_close(visitor);
		return;
	}
	if (n < 0 || visitor->state != READING)
		return;
	visitor->n += (size_t)n;
	int status = http_parse(visitor->head, visitor->n, &request);
	if (status == 0)
		return;
	visitor->head_only = request.head_only;
	if (status != 200) {
		refuse(visitor, status);
		return;
	}
	visitor->state = WAITING;
	visitor->deadline = clock_monotonic() + WRITE_NS;
	metrics_ask(visitor->listener->server, text_ready, visitor);
}

static void look(uv_timer_t *timer)
{
	struct listener *listener = timer->data;
	uint64_t now = clock_monotonic();
	for (struct visitor *visitor = listener->visitors, *next; visitor; visitor = next) {
		next = visitor->next;
		if (now > visitor->deadline)
			visitor_close(visitor);
	}
}

/* Takes a connection that has not asked yet, or has its answer, before one that still waits for an answer; among equals the oldest. */
static void push_out(struct listener *listener)
{
	struct visitor *worst = NULL;
	for (struct visitor *visitor = listener->visitors; visitor; visitor = visitor->next) {
		bool useless = visitor->state == READING || visitor->state == CLOSING;
		bool worst_useless = worst && (worst->state == READING || worst->state == CLOSING);
		if (!worst || useless > worst_useless || (useless == worst_useless && visitor->since < worst->since))
			worst = visitor;
	}
	if (worst)
		visitor_close(worst);
}

static void came(uv_stream_t *stream, int status)
{
	struct listener *listener = stream->data;
	struct visitor *visitor = status ? NULL : calloc(1, sizeof *visitor);
	if (!visitor) {
		log_line("metrics_port: a connection cannot be taken: %s",
			 status ? uv_strerror(status) : "out of memory");
		return;
	}
	uv_tcp_init(&listener->server->loop, &visitor->tcp);
	if (listener->count >= CONNECTIONS)
		push_out(listener);
	visitor->tcp.data = visitor;
	visitor->listener = listener;
	visitor->since = clock_monotonic();
	visitor->deadline = visitor->since + READ_NS;
	visitor->next = listener->visitors;
	if (visitor->next)
		visitor->next->previous = visitor;
	listener->visitors = visitor;
	if (listener->count++ == 0)
		uv_timer_start(&listener->timer, look, LOOK_MS, LOOK_MS);
	if (uv_accept(stream, (uv_stream_t *)&visitor->tcp) ||
	    uv_read_start((uv_stream_t *)&visitor->tcp, room_for, heard))
		visitor_close(visitor);
}

struct listener *listener_new(struct server *server, uint16_t port)
{
	struct listener *listener = calloc(1, sizeof *listener);
	struct sockaddr_in address;
	if (!listener)
		return NULL;
	listener->server = server;
	uv_tcp_init(&server->loop, &listener->tcp);
	uv_timer_init(&server->loop, &listener->timer);
	listener->tcp.data = listener->timer.data = listener;
	listener->handles = 2;
	uv_ip4_addr("127.0.0.1", port, &address);
	int error = uv_tcp_bind(&listener->tcp, (const struct sockaddr *)&address, 0);
	if (!error)
		error = uv_listen((uv_stream_t *)&listener->tcp, CONNECTIONS, came);
	if (error) {
		log_line("metrics_port: no metrics on 127.0.0.1:%u: %s%s", port, uv_strerror(error),
			 error == UV_EAFNOSUPPORT ? "; the unit's RestrictAddressFamilies= has to name AF_INET" : "");
		listener_free(listener);
		return NULL;
	}
	log_line("metrics at http://127.0.0.1:%u/metrics", port);
	return listener;
}

void listener_free(struct listener *listener)
{
	if (!listener)
		return;
	while (listener->visitors)
		visitor_close(listener->visitors);
	uv_close((uv_handle_t *)&listener->tcp, handle_closed);
	uv_close((uv_handle_t *)&listener->timer, handle_closed);
}
