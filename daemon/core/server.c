/* server.c - see server.h. Thread: the loop's. No locks. */
#include "server.h"
#include "proto/base/clock.h"
#include "accept.h"
#include "proto/base/log.h"
#include "calls.h"
#include "connection.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* How long captures may take to end when the daemon is told to; those that are derived when another is to follow. */
#define STOP_NS 4000000000ull
#define HANDOFF_NS 10000000000ull
/* What the threads behind the loop may take after that. */
#define STOP_MORE_NS 10000000000ull
#define TICK_FAST_NS 50000000ull
#define TICK_SLOW_NS 1000000000ull

/* --- time --- */

/* While the daemon is ending: ends it as soon as nothing is left to wait for. */
static void stop_if_done(struct server *server)
{
	if (!server->stopping)
		return;
	bool work = server->calls->has_work(server);
	/* A request that this daemon has read is answered by this daemon, even if another one follows. */
	for (const struct conn *conn = server->conns; conn && server->handing_off && !work; conn = conn->next)
		work = conn->busy && !conn->follows;
	if (!work || clock_monotonic() > server->stop_at)
		uv_stop(&server->loop);
}

static void tick(uv_timer_t *timer)
{
	struct server *server = timer->data;
	uint64_t now = clock_monotonic();
	counters_tick(&server->counters, now, server->tick_ns);
	server->calls->tick(server, now);
	for (struct conn *conn = server->conns, *next; conn; conn = next) {
		next = conn->next;
		if (conn->kind == CONN_UNKNOWN && now > conn->since + CONN_IDENTIFY_NS)
			conn_close(conn);
	}
	accept_resume(server);
	quota_tick(server, now);
	stop_if_done(server);
	server_tick_adjust(server);
}

void server_tick_adjust(struct server *server)
{
	server->calls->changed(server);
	enum pace pace = server->stopping ? PACE_FAST : server->calls->pace(server);
	if (pace == PACE_NONE && (server->unidentified || server->accept_paused))
		pace = PACE_SLOW;
	uint64_t wanted = pace == PACE_FAST ? TICK_FAST_NS : pace == PACE_SLOW ? TICK_SLOW_NS : 0;
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
	/* With a terminal, whoever started the daemon has closed it. Without one, SIGHUP asks for the settings to be read
	 * again. */
	int terminal = server->manager.managed ? -1 : open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
	if (terminal >= 0) {
		close(terminal);
		stop(signal, number);
		return;
	}
	if (!server->stopping)
		server->calls->reload(server);
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
	server->handing_off = number == SIGTERM && (server->manager.managed || !server->user);
	uint64_t most = server->handing_off ? HANDOFF_NS : STOP_NS;
	server->stop_at = clock_monotonic() + most;
	uv_poll_stop(&server->listener);
	server->accept_paused = false;
	server->calls->stopping(server, most + STOP_MORE_NS);
	if (server->handing_off) {
		for (struct conn *conn = server->conns; conn; conn = conn->next)
			conn_poll_adjust(conn);
		stop_if_done(server);
	}
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
		counters_late(&server->counters, server->outbox.late);
	stop_if_done(server);
	server_tick_adjust(server);
}

/* After each round of the loop each user has their full share again. */
static void next_turn(uv_check_t *check)
{
	struct server *server = check->data;
	server->quota.turn++;
}

int server_init(struct server *server)
{
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
	return 0;
}

void server_listen(struct server *server)
{
	uv_poll_init(&server->loop, &server->listener, server->listen_fd);
	server->listener.data = server;
	accept_start(server);
	static const int numbers[3] = {SIGTERM, SIGINT, SIGHUP};
	for (int i = 0; i < 3; i++) {
		uv_signal_init(&server->loop, &server->signals[i]);
		server->signals[i].data = server;
		uv_signal_start(&server->signals[i], numbers[i] == SIGHUP ? hangup : stop, numbers[i]);
	}
}

void server_run(struct server *server)
{
	server_tick_adjust(server);
	uv_run(&server->loop, UV_RUN_DEFAULT);
}

void server_disconnect(struct server *server)
{
	while (server->conns)
		conn_close(server->conns);
}

void server_end_closing(struct server *server)
{
	server->closing_hangs = server->closing_pool_runs && work_pool_works(&server->closing_pool);
	if (server->closing_pool_runs && !server->closing_hangs)
		work_pool_deinit(&server->closing_pool);
}

void server_close_handles(struct server *server)
{
	work_outbox_close(&server->outbox);
	uv_close((uv_handle_t *)&server->listener, NULL);
	uv_close((uv_handle_t *)&server->async, NULL);
	uv_close((uv_handle_t *)&server->tick, NULL);
	uv_close((uv_handle_t *)&server->turned, NULL);
	for (int i = 0; i < 3; i++)
		uv_close((uv_handle_t *)&server->signals[i], NULL);
	uv_run(&server->loop, UV_RUN_DEFAULT);
}

void server_deinit(struct server *server)
{
	int error = uv_loop_close(&server->loop);
	assert(error == 0);
	(void)error;
	if (!server->closing_hangs)
		work_outbox_deinit(&server->outbox);
	quota_deinit(server);
	accept_stop(server);
	manager_deinit(&server->manager);
	close(server->listen_fd);
	if (!server->manager.handed)
		unlink(server->socket_path);
}
