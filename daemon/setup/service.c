/* service.c - see service.h. Thread: the loop's. No locks. */
#include "service.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "daemon/capture/live.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/catalogue/usage.h"
#include "daemon/core/server.h"

#include <stdio.h>
#include <string.h>

/* Changes within this time are told together, as the manager wakes for each message. */
#define STATUS_MS 1000
/* The migration of a catalogue with millions of captures takes minutes, and one that is killed starts anew. */
#define STARTING_US 900000000ull

/* How long one piece of work may take on a thread that is watched. A pass of the ingest and a piece of the catalogue's work take
 * ms; on a processor that jobs keep busy, or behind a name service that does not answer, seconds. A thread that waits for a
 * disk is not counted (work_beat_hangs): a slow disk would only be slower after a restart.
 *
 * Threads of the finish pool are not watched. A derive may take minutes. If one hangs, a next daemon would take up the
 * same work and hang, too; this one still serves all others. */
#define PIECE_NS 120000000000ull

struct service *service_of(const struct server *server)
{
	return room_state(server, ROOM_SERVICE);
}

void service_starting(struct server *server, const char *what)
{
	manager_tell(&server->manager, "STATUS=%s\nEXTEND_TIMEOUT_USEC=%llu", what, STARTING_US);
}

/* --- status --- */

static void write_status(const struct server *server, char *text, size_t bytes)
{
	const struct service *service = service_of(server);
	const struct live *live = live_of(server);
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	struct usage_owner stored = usage_sum(usage_of(server), true, 0);
	double size = (double)stored.bytes;
	unsigned unit = 0;
	for (; size >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
		size /= 1024;
	int n = snprintf(text, bytes, "%s%u process%s, %u capture%s under way, %llu stored (%.*f %s)",
			 server->stopping ? "Ending: " : "", live->process_count, live->process_count == 1 ? "" : "es",
			 live->capture_count, live->capture_count == 1 ? "" : "s", (unsigned long long)stored.captures,
			 unit ? 1 : 0, size, units[unit]);
	if (*service->refused && n > 0 && (size_t)n < bytes)
		snprintf(text + n, bytes - (size_t)n, "; settings refused, the old ones hold: %.400s",
			 service->refused);
}

static void tell_status(struct server *server)
{
	struct service *service = service_of(server);
	const struct live *live = live_of(server);
	char text[sizeof service->told];
	write_status(server, text, sizeof text);
	service->status_waits = false;
	service->processes = live->process_count;
	service->captures = live->capture_count;
	service->stored = usage_sum(usage_of(server), true, 0).captures;
	if (strcmp(text, service->told) == 0)
		return;
	memcpy(service->told, text, sizeof text);
	manager_tell(&server->manager, "STATUS=%s", text);
}

static void status_due(uv_timer_t *timer)
{
	tell_status(timer->data);
}

void service_changed(struct server *server)
{
	struct service *service = service_of(server);
	const struct live *live = live_of(server);
	if (server->manager.notify_fd < 0 || !service->timers || service->status_waits ||
	    (service->processes == live->process_count && service->captures == live->capture_count &&
	     service->stored == usage_sum(usage_of(server), true, 0).captures))
		return;
	service->status_waits = true;
	uv_timer_start(&service->status, status_due, STATUS_MS, 0);
}

/* --- watchdog --- */

static bool is_healthy(struct server *server, uint64_t now)
{
	return !work_pool_hangs(&live_of(server)->ingest_pool, now, PIECE_NS) &&
	       !work_beat_hangs(&catalogue_of(server)->beat, now, PIECE_NS);
}

/* This function runs on the loop, so the loop is alive. */
static void watchdog_due(uv_timer_t *timer)
{
	struct server *server = timer->data;
	struct service *service = service_of(server);
	bool healthy = is_healthy(server, clock_monotonic());
	if (healthy)
		manager_tell(&server->manager, "WATCHDOG=1");
	else if (!service->unhealthy)
		log_line("a thread of the daemon has been at one piece of work for %llu s: the service manager is not "
			 "told any more that all is well, and will restart the daemon",
			 PIECE_NS / 1000000000ull);
	service->unhealthy = !healthy;
}

/* --- life --- */

void service_ready(struct server *server)
{
	struct service *service = service_of(server);
	uv_timer_init(&server->loop, &service->status);
	uv_timer_init(&server->loop, &service->watchdog);
	service->status.data = service->watchdog.data = server;
	service->timers = true;
	if (server->manager.watchdog_ns) {
		uint64_t ms = server->manager.watchdog_ns / 2000000;
		uv_timer_start(&service->watchdog, watchdog_due, 0, ms ? ms : 1);
	}
	manager_tell(&server->manager, "READY=1");
	tell_status(server);
}

void service_reloading(struct server *server)
{
	manager_tell(&server->manager, "RELOADING=1\nMONOTONIC_USEC=%llu",
		     (unsigned long long)(clock_monotonic() / 1000));
}

void service_reloaded(struct server *server, const char *refused)
{
	struct service *service = service_of(server);
	text_copy(service->refused, sizeof service->refused, refused);
	manager_tell(&server->manager, "READY=1");
	tell_status(server);
}

void service_stopping(struct server *server, uint64_t most_ns)
{
	manager_tell(&server->manager, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu", (unsigned long long)(most_ns / 1000));
	tell_status(server);
}

void service_deinit(struct server *server)
{
	struct service *service = service_of(server);
	if (service->timers) {
		uv_close((uv_handle_t *)&service->status, NULL);
		uv_close((uv_handle_t *)&service->watchdog, NULL);
	}
	service->timers = false;
}
