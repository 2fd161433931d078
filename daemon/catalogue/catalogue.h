/* catalogue.h - catalogue.db: its thread, and the queue of that thread's work, so that the loop never waits for a disk.
 * Pieces of work run in order on that one thread; all that wait run in one transaction, and their `done` is called on
 * the loop's thread after the commit. The rows: captures.h, deleted.h, history.h, audit_rows.h, recovery_rows.h. The
 * functions there are for work that runs on that thread, or for the start, before the thread exists. */
#ifndef PROFD_DAEMON_CATALOGUE_CATALOGUE_H
#define PROFD_DAEMON_CATALOGUE_CATALOGUE_H

#include "daemon/core/work.h"

#include <sqlite3.h>

struct server;

struct catalogue {
	sqlite3 *db;
	int folder; /* captures/ */
	char folder_path[480];
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct work *first, *last;
	unsigned waiting;
	bool stop;
	uint64_t audit_rows, history_rows; /* written since the start; its thread's */
	struct work_outbox *outbox;
	struct work_beat beat;
	int failed_code; /* the error that was last logged, and when (CLOCK_MONOTONIC ns) */
	uint64_t failed_at;
	uint64_t deleted_at; /* CLOCK_REALTIME ns of the newest row of `deleted` */
};

struct catalogue *catalogue_of(const struct server *server);

/* Starts the thread, with the file already open (open.h). 0 or a negative errno. */
int catalogue_start(struct catalogue *catalogue, struct work_outbox *outbox);
/* Does what still waits, then closes. */
void catalogue_deinit(struct catalogue *catalogue);
/* Loop's thread. Takes the work; false (work not taken) if so much waits that the disk must be stuck. */
bool catalogue_submit(struct catalogue *catalogue, struct work *work);

/* Loop's thread: how many pieces wait. */
unsigned catalogue_waiting(const struct catalogue *catalogue);
/* Any thread: the release of SQLite. */
const char *catalogue_sqlite(void);

#endif
