/* metrics.h - what Prometheus is told of the daemon, in three ways: op "metrics", a file for node_exporter, a page on
 * loopback. While none of them is used nothing runs. Loop's thread. */
#ifndef PROFD_DAEMON_METRICS_METRICS_H
#define PROFD_DAEMON_METRICS_METRICS_H

#include "daemon/core/config.h"
#include "daemon/core/work.h"
#include "text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct listener;
struct server;

/* Takes the text as it is now; NULL: out of memory, or the daemon is going down. */
typedef void metrics_ready(void *context, const char *text, size_t n);

struct metrics {
	struct server *server;
	/* The loop's own times. */
	uv_prepare_t prepare;
	uint64_t turned_at, idle_before; /* ns */

	/* Clients that wait for a text, until the slow facts are there or their time is over. */
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

struct metrics *metrics_of(const struct server *server);

/* After uv_loop_init: begins to measure the loop, and what the configuration asks for. */
void metrics_start(struct server *server);
/* The configuration has changed: the file, its interval. */
void metrics_reload(struct server *server);
/* Answers all who wait, and closes all handles. The loop then runs once more. */
void metrics_stop(struct server *server);
/* After metrics_stop, when everything else is safe on disk: removes the file, and waits for a disk that hangs. The outbox
 * has to be run once more. */
void metrics_deinit(struct server *server);

/* Calls `ready` once, maybe before it returns. */
void metrics_ask(struct server *server, metrics_ready *ready, void *context);
/* `ready` is not called any more for this context. */
void metrics_forget(struct server *server, const void *context);

#endif
