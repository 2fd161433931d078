/* server.h - the daemon's one loop: its listening socket, its connections, its clock, its end. All of this, and the
 * state of the rooms (rooms.h), belongs to the loop's thread; other threads hand over work through server->outbox. */
#ifndef PROFD_DAEMON_CORE_SERVER_H
#define PROFD_DAEMON_CORE_SERVER_H

#include "config.h"
#include "counters.h"
#include "manager.h"
#include "proto/limits.h"
#include "proto/socket.h"
#include "quota.h"
#include "rooms.h"
#include "work.h"

#include <uv.h>

struct calls;
struct conn;

struct server {
	const struct calls *calls; /* of the rooms above; before the first connection */
	void *rooms[ROOM_COUNT];

	uv_loop_t loop;
	uv_poll_t listener;
	uv_async_t async;
	uv_check_t turned;
	uv_timer_t tick;
	uv_signal_t signals[3];
	uint64_t tick_ns; /* interval of the running tick; 0 = it does not run */
	int listen_fd;
	int spare_fd;	    /* given up for a moment where descriptors have run out */
	bool accept_paused; /* until the next tick */

	bool user; /* a user's own daemon */
	struct config config;
	const char *config_file; /* --config; NULL: the usual places */
	bool verbose;		 /* --verbose */
	struct manager manager;
	bool stopping;
	bool handing_off; /* another daemon is to follow: it takes over the running captures and new requests */
	bool closing;	  /* the pools are going: nothing new begins */
	uint64_t stop_at;
	gid_t group; /* profd's; (gid_t)-1 where there is none */
	uint64_t pid_namespace;
	uint64_t started_at; /* CLOCK_REALTIME ns */
	char socket_path[SOCKET_PATH_BYTES];
	char directory[400];
	char folder_path[440]; /* captures/ */
	int folder;

	struct conn *conns;
	unsigned conn_count, unidentified;
	struct quota quota;
	struct counters counters;
	struct work_outbox outbox;
	struct work_pool closing_pool; /* from the first use on; see descriptors.h */
	bool closing_pool_runs;
	bool closing_hangs; /* at the end: its threads may come to themselves as long as there is a process, so what they use stays */
	char packet[LIMIT_PACKET_BYTES];
};

/* The loop, its clock and the outbox. 0 or a negative errno. */
int server_init(struct server *server);
/* From now on connections are taken from server->listen_fd, and signals heard. */
void server_listen(struct server *server);
/* Runs until SIGTERM or SIGINT. If another daemon is to follow (SIGTERM of a service), a capture that still records is
 * left to its agent, which offers it to that daemon; else the capture is ended. */
void server_run(struct server *server);

/* The end, in this order; between them the rooms end what is theirs (run.c). Nothing new begins, all connections are
 * closed: */
void server_disconnect(struct server *server);
/* The pool that closes descriptors, where it does not hang: */
void server_end_closing(struct server *server);
/* The handles; runs the loop until all are closed: */
void server_close_handles(struct server *server);
/* The loop and the socket: */
void server_deinit(struct server *server);

/* Starts or stops the tick, as the present work needs it. Call it after anything that waits for a time has begun. */
void server_tick_adjust(struct server *server);

#endif
