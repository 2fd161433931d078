/* metrics.h - what Prometheus is told of the daemon: counters that the rest of it adds to, and three ways out (op "metrics",
 * a file for node_exporter, a page on loopback). While none of them is used nothing runs. Loop's thread, but for what says
 * otherwise. */
#ifndef PROFD_DAEMON_METRICS_METRICS_H
#define PROFD_DAEMON_METRICS_METRICS_H

#include "daemon/setup/config.h"
#include "exposition.h"
#include "store/facts.h"
#include "proto/errors.h"
#include "daemon/core/work.h"

#include <stdatomic.h>
#include <uv.h>

struct conn;
struct ingest;
struct listener;
struct server;

/* Why a capture was deleted: the configuration's key that asked for it, or a user. */
#define METRICS_DELETED(X)                                                                                             \
	X(store_bytes)                                                                                                 \
	X(store_bytes_user)                                                                                            \
	X(store_captures)                                                                                              \
	X(store_captures_user)                                                                                         \
	X(store_age)                                                                                                   \
	X(free_space)                                                                                                  \
	X(rm)                                                                                                          \
	X(other)
enum metrics_deleted_by {
#define ROW(word) METRICS_DELETED_##word,
	METRICS_DELETED(ROW)
#undef ROW
		METRICS_DELETED_COUNT
};

/* Rows of proto/errors.def and of enum cancel_reason, with room. */
#define METRICS_ERRORS 40
#define METRICS_REASONS 16

/* What ingest threads add to. */
struct metrics_flow {
	_Atomic uint64_t events, bytes;
};

/* What may have to wait for a disk: found out on a thread of its own. */
struct metrics_slow {
	uint64_t at; /* CLOCK_MONOTONIC ns; 0 = not known */
	bool disk_known;
	uint64_t free_bytes, size_bytes; /* of the store's file system */
	uint64_t resident_bytes, descriptors, threads;
};

/* Takes the text as it is now; NULL: out of memory, or the daemon is going down. */
typedef void metrics_ready(void *context, const char *text, size_t n);

struct metrics {
	uint64_t captures[CAPTURE_STATUS_COUNT][METRICS_REASONS];
	uint64_t steps, events, lost[LOSS_COUNT], unwritten;
	uint64_t triggers[METRICS_ERRORS], refusals[METRICS_ERRORS]; /* triggers[0]: accepted */
	uint64_t deleted[METRICS_DELETED_COUNT], deleted_bytes[METRICS_DELETED_COUNT];
	struct histogram derive, latency, turn;
	struct metrics_flow flow;

	/* The loop's own times. */
	uv_prepare_t prepare;
	uint64_t turned_at, idle_before; /* ns */
	uint64_t tick_due;		 /* CLOCK_MONOTONIC ns; 0 = none */

	/* Whoever waits for a text, until the slow facts are there, or their time is over. */
	struct metrics_waiter *waiters;
	uv_timer_t patience;
	struct work_pool pool; /* one thread, from the first use on */
	bool pool_runs;
	struct work slow_work;
	bool slow_runs, slow_late; /* late: nobody waits for this run any more */
	struct metrics_slow slow, slow_next;

	/* The file. */
	uv_timer_t interval;
	struct work write_work;
	bool writing;
	char *write_text;
	size_t write_bytes;
	char path[CONFIG_PATH_BYTES], old_path[CONFIG_PATH_BYTES]; /* as the loop has it; to be removed */
	char write_path[CONFIG_PATH_BYTES], remove_path[CONFIG_PATH_BYTES];
	int write_error; /* of the last write; each is said once */

	struct listener *listener; /* NULL: none */
};

/* After uv_loop_init: begins to measure the loop, and what the configuration asks for. */
void metrics_start(struct server *server);
/* The configuration has changed: the file, its interval. */
void metrics_reload(struct server *server);
/* Answers whoever waits and closes all handles. The loop then runs once more. */
void metrics_stop(struct server *server);
/* Afterwards, when all that matters is safe: removes the file; waits for a disk where one hangs. The outbox is then run once
 * more. */
void metrics_deinit(struct server *server);

/* Calls `ready` once, maybe before it returns. */
void metrics_ask(struct server *server, metrics_ready *ready, void *context);
/* `ready` is not called any more for this context. */
void metrics_forget(struct server *server, const void *context);
/* Serves op "metrics". */
void metrics_serve(struct conn *conn);

/* The tick runs, which wants to run again in `interval` ns (0: not). */
void metrics_tick(struct metrics *metrics, uint64_t now, uint64_t interval);
/* Finished work has come back, so late. */
void metrics_late(struct metrics *metrics, uint64_t ns);
/* A capture is finished: its file is written, or there is none. */
void metrics_captured(struct metrics *metrics, const struct ingest *ingest);
/* work.run of the finish pool: ingest_finish, timed. */
int64_t metrics_finish(struct work *work);
/* A trigger is accepted (0), or refused as a whole. */
void metrics_triggered(struct metrics *metrics, enum error error);
/* An audit line was written; `outcome` is the word of an error where something was refused. */
void metrics_audited(struct metrics *metrics, const char *outcome);
/* Captures were deleted, because of `reason`: a word of METRICS_DELETED. */
void metrics_deleted(struct metrics *metrics, const char *reason, uint64_t captures, uint64_t bytes);

/* Writes all of it. slow->at 0: what it would tell is left out. */
void metrics_write(const struct server *server, const struct metrics_slow *slow, struct exposition *to);

#endif
