/* server.h - the daemon's one loop: its listening socket, its connections, its clock. All of it, and all that hangs on it
 * (processes, triggers, captures), belongs to the loop's thread; other threads speak through server->outbox. */
#ifndef PROFD_DAEMON_CORE_SERVER_H
#define PROFD_DAEMON_CORE_SERVER_H

#include "daemon/catalogue/audit.h"
#include "daemon/catalogue/catalogue.h"
#include "config.h"
#include "counters.h"
#include "manager.h"
#include "daemon/metrics/metrics.h"
#include "proto/limits.h"
#include "proto/message.h"
#include "proto/socket.h"
#include "quota.h"
#include "daemon/ops/request.h"
#include "daemon/catalogue/retention.h"
#include "daemon/setup/service.h"
#include "daemon/catalogue/usage.h"
#include "work.h"

#include <cjson/cJSON.h>
#include <sys/socket.h>
#include <uv.h>

/* What may wait for a peer that does not read; a list is produced as it is read. */
#define SERVER_QUEUE_BYTES (256u << 10)
#define SERVER_QUEUE_LOW (32u << 10)
/* How long a peer may take to say what it is. */
#define SERVER_IDENTIFY_NS 10000000000ull

struct packet {
	struct packet *next;
	int fd; /* owned; -1 = none */
	size_t n;
	char data[];
};

enum conn_kind { CONN_UNKNOWN, CONN_CLIENT, CONN_AGENT };

struct conn {
	struct server *server;
	struct conn *next, *previous;
	uv_poll_t poll;
	int fd;
	int events; /* that are polled for */
	/* Who it is was decided when it connected, and stays. */
	struct ucred peer;
	bool admin;		/* root, or of the group profd; from the daemon's own pid namespace alone */
	uint64_t pid_namespace; /* of a client, by which it reads and is told pids; see namespaces.h */
	bool located;		/* that is known */
	struct quota_user *user;
	bool counted; /* as one of the user's connections; else it is only told why not: */
	enum error refusal_error;
	char *refusal;	    /* owned */
	bool agent_counted; /* and as one of the user's agents */
	enum conn_kind kind;
	uint64_t since; /* CLOCK_MONOTONIC ns */
	bool closed;	/* gone but for the references below */
	unsigned references;
	struct packet *first, *last;
	size_t queued; /* bytes */

	struct process *process; /* of an agent */

	/* A client's request that is being served; it is not read from meanwhile. */
	bool busy;
	struct request request;
	struct trigger *trigger; /* that it follows */
	struct process *probing; /* whose answer to PROBE it waits for */
	uint64_t probe_deadline;
	void (*produce)(struct conn *conn); /* makes more rows when the queue runs low */
	bool fetching;			    /* the catalogue is asked for more rows */
	uint64_t cursor, left;
};

struct server {
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
	struct service service;
	bool stopping;
	bool parking; /* another daemon is to follow: what runs is left to it, new requests too */
	bool closing; /* the pools are going: nothing new begins */
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
	struct process *processes;
	unsigned process_count;
	uint64_t next_serial;
	struct trigger *triggers;
	struct capture *captures; /* that are not in their final state */
	unsigned capture_count;
	uint64_t next_capture, next_trigger;
	unsigned probes;
	uint64_t arm_ns;	/* what the slowest of the last agents took to answer ARM */
	uint64_t orphans_until; /* CLOCK_MONOTONIC ns */

	struct work_outbox outbox;
	struct work_pool ingest_pool, finish_pool;
	struct work_pool closing_pool; /* from the first use on; see descriptors.h */
	bool closing_pool_runs;
	struct work trim; /* of the heap, when the last capture has gone */
	bool trimming;
	unsigned trim_peak; /* captures at a time, the most since the last trim */
	struct catalogue catalogue;
	struct usage usage;
	struct counters counters;
	struct metrics metrics;
	struct quota quota;
	unsigned left_out; /* users of whom audit lines were left out */
	struct retention retention;
	char packet[LIMIT_PACKET_BYTES];
};

/* Starts pools, loop and handles on a listening socket, with the catalogue already open. 0 or a negative errno. */
int server_init(struct server *server);
/* Runs until SIGTERM or SIGINT. Where another daemon is to follow (SIGTERM of a service) what still records is left to its
 * agent, which offers it to that one; else it is ended. */
void server_run(struct server *server);
void server_deinit(struct server *server);

/* (Re)starts or stops the tick, as what is going on needs it. Call after anything that waits for time began. */
void server_tick_adjust(struct server *server);
/* A capture has gone: the heap is given back where it was the last, or the last of many but for a few that go on. */
void server_trim(struct server *server);
/* While the daemon is ending: ends it as soon as nothing is left to wait for. */
void server_stop_if_done(struct server *server);

/* A connection that was accepted; takes fd. With an error it is only told why not (`refusal`, copied), in its own language, once
 * it has spoken. NULL where that cannot be: fd is closed then. */
struct conn *conn_new(struct server *server, int fd, const struct ucred *peer, bool admin, struct quota_user *user,
		      enum error error, const char *refusal);
/* Queues a packet (copied; fd is duplicated where not -1). A peer that lets too much wait is closed. */
void conn_send(struct conn *conn, const void *packet, size_t n, int fd);
/* Sends a row and deletes it. */
void conn_row(struct conn *conn, cJSON *row);
/* A row's beginning: {"row": word}. */
cJSON *conn_row_new(const char *word);
/* Ends the request with {"end": true, ...}; `end` may be NULL, is deleted. The next request is read. */
void conn_end(struct conn *conn, cJSON *end);
/* Ends the request with an error. */
void conn_error(struct conn *conn, enum error error, const char *detail, int32_t pid);
void conn_close(struct conn *conn);
/* Reads what an agent's connection still holds, then closes it: its process is gone, whoever else may hold the socket. */
void conn_drain(struct conn *conn);
struct conn *conn_ref(struct conn *conn);
void conn_unref(struct conn *conn);
/* May this client see and trigger what belongs to `uid`? */
bool conn_may(const struct conn *conn, uid_t uid);

/* The sentence of an error, %s replaced by `detail`. */
#define SENTENCE_BYTES 512
void error_text(enum error error, const char *detail, char ret[SENTENCE_BYTES]);

#endif
