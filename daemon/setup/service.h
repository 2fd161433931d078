/* service.h - the daemon as a service of systemd: the socket that it is handed, what it tells (ready, status, reloading,
 * stopping) and the watchdog. Without a service manager all of it does nothing. Loop's thread, or before the loop runs.
 *
 * The protocols are systemd's documented ones (sd_listen_fds(3), sd_notify(3)), a few lines each: libsystemd cannot go into
 * a program that is to run as one file anywhere. */
#ifndef PROFD_DAEMON_SETUP_SERVICE_H
#define PROFD_DAEMON_SETUP_SERVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <uv.h>

struct server;

#define SERVICE_SENTENCE_BYTES 640

/* A segment that an earlier daemon of this service has left with the manager. */
struct service_kept {
	uint64_t capture;
	int fd; /* -1: taken */
};

struct service {
	int notify_fd; /* -1: nobody is told */
	struct sockaddr_un notify_address;
	socklen_t notify_length;
	bool managed;		   /* somebody starts the daemon again when it ends, or when it is needed */
	bool handed;		   /* the listening socket is the manager's: not ours to remove */
	struct service_kept *kept; /* owned; until service_release */
	size_t kept_count;
	uint64_t watchdog_ns; /* 0: none is kept */
	uv_timer_t watchdog, status;
	bool timers, status_waits, unhealthy;
	char told[512];	   /* last STATUS */
	char refused[512]; /* why the settings of the last reload were not taken; "" = they were */
	/* What the last STATUS counted. */
	unsigned processes, captures;
	uint64_t stored;
};

/* Reads what the manager has put into the environment, and takes it out of there. Before anything else. Returns the listening
 * socket that was handed over, with its path in ret_path, -ENOENT where there is none, or another negative errno with a
 * sentence. */
int service_init(struct service *service, char ret_path[SERVICE_SENTENCE_BYTES], char *sentence);

/* Leaves the segment of a capture with the manager, so that what it holds outlives this daemon and the job too. False where that
 * cannot be now. */
bool service_keep(struct service *service, uint64_t capture, int fd);
/* The capture needs it no more. */
void service_unkeep(struct service *service, uint64_t capture);
/* What an earlier daemon has left of a capture, the caller's from now on; -1 where nothing. */
int service_take(struct service *service, uint64_t capture);
/* Gives back what nobody has taken. */
void service_release(struct service *service);

/* What takes long before the daemon is ready: the manager waits longer than it would. */
void service_starting(struct service *service, const char *what);
/* The loop is about to run. Starts the timers. */
void service_ready(struct server *server);
/* Something may have changed that the status speaks of: it is told some time soon. Cheap. */
void service_changed(struct server *server);
/* SIGHUP: reads the settings again. Wrong ones are refused as a whole, the old ones stay. */
void service_reload(struct server *server);
/* The end has begun and will take at most so long. */
void service_stopping(struct server *server, uint64_t most_ns);
/* Closes the timers' handles. */
void service_deinit(struct server *server);

#endif
