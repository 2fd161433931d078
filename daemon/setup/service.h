/* service.h - the daemon as a service of systemd: what the service manager (core/manager.h) is told, and the watchdog.
 * Without a service manager nothing is told. Loop's thread, or before the loop runs. */
#ifndef PROFD_DAEMON_SETUP_SERVICE_H
#define PROFD_DAEMON_SETUP_SERVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct server;

struct service {
	uv_timer_t watchdog, status;
	bool timers, status_waits, unhealthy;
	char told[512];	   /* last STATUS */
	char refused[512]; /* why the settings of the last reload were not taken; "" = they were */
	/* What the last STATUS counted. */
	unsigned processes, captures;
	uint64_t stored;
};

struct service *service_of(const struct server *server);

/* The daemon is not ready yet, and `what` may take long: the manager is asked to wait longer. */
void service_starting(struct server *server, const char *what);
/* The loop is about to run. Starts the timers. */
void service_ready(struct server *server);
/* Something may have changed that the status speaks of: it is told some time soon. Cheap. */
void service_changed(struct server *server);
/* The settings are being read anew, and have been: `refused` says why they were not taken, "" = they were. */
void service_reloading(struct server *server);
void service_reloaded(struct server *server, const char *refused);
/* The end has begun and will take at most so long. */
void service_stopping(struct server *server, uint64_t most_ns);
/* Closes the timers' handles. */
void service_deinit(struct server *server);

#endif
