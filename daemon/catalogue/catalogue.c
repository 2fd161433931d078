/* catalogue.c - see catalogue.h. Threads: the catalogue's own, except for submit, start, deinit and waiting. Lock:
 * catalogue->lock for the queue. */
#include "catalogue.h"
#include "sql.h"
#include "daemon/core/rooms.h"

#include <signal.h>
#include <string.h>

/* More pieces than this wait only if the disk is stuck. */
#define WAITING_MAX 20000

struct catalogue *catalogue_of(const struct server *server)
{
	return room_state(server, ROOM_CATALOGUE);
}

/* All that waits is done in one transaction, with one fsync. */
static void *catalogue_thread(void *argument)
{
	struct catalogue *catalogue = argument;
	pthread_mutex_lock(&catalogue->lock);
	for (;;) {
		struct work *work = catalogue->first;
		if (!work) {
			if (catalogue->stop)
				break;
			pthread_cond_wait(&catalogue->changed, &catalogue->lock);
			continue;
		}
		catalogue->first = catalogue->last = NULL;
		catalogue->waiting = 0;
		pthread_mutex_unlock(&catalogue->lock);
		int began = catalogue_run(catalogue, "BEGIN");
		struct work *finished = NULL, **end = &finished;
		while (work) {
			struct work *next = work->next;
			bool reports = work->done != NULL;
			work_beat_begin(&catalogue->beat);
			work->run(work);
			if (reports) {
				work->next = NULL;
				*end = work;
				end = &work->next;
			}
			work = next;
		}
		work_beat_begin(&catalogue->beat);
		bool failed = began || catalogue_run(catalogue, "COMMIT");
		if (failed && !sqlite3_get_autocommit(catalogue->db))
			sqlite3_exec(catalogue->db, "ROLLBACK", NULL, NULL, NULL);
		work_beat_end(&catalogue->beat);
		while (finished) {
			struct work *next = finished->next;
			finished->failed = failed;
			work_outbox_put(catalogue->outbox, finished);
			finished = next;
		}
		pthread_mutex_lock(&catalogue->lock);
	}
	pthread_mutex_unlock(&catalogue->lock);
	return NULL;
}

int catalogue_start(struct catalogue *catalogue, struct work_outbox *outbox)
{
	catalogue->outbox = outbox;
	pthread_mutex_init(&catalogue->lock, NULL);
	pthread_cond_init(&catalogue->changed, NULL);
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&catalogue->thread, NULL, catalogue_thread, catalogue);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	catalogue->running = error == 0;
	return -error;
}

void catalogue_deinit(struct catalogue *catalogue)
{
	if (catalogue->running) {
		pthread_mutex_lock(&catalogue->lock);
		catalogue->stop = true;
		pthread_cond_signal(&catalogue->changed);
		pthread_mutex_unlock(&catalogue->lock);
		pthread_join(catalogue->thread, NULL);
		pthread_cond_destroy(&catalogue->changed);
		pthread_mutex_destroy(&catalogue->lock);
	}
	sqlite3_close(catalogue->db);
	memset(catalogue, 0, sizeof *catalogue);
}

bool catalogue_submit(struct catalogue *catalogue, struct work *work)
{
	if (!catalogue->running)
		return false;
	work->next = NULL;
	pthread_mutex_lock(&catalogue->lock);
	bool taken = catalogue->waiting < WAITING_MAX;
	if (taken) {
		if (catalogue->last)
			catalogue->last->next = work;
		else
			catalogue->first = work;
		catalogue->last = work;
		catalogue->waiting++;
		pthread_cond_signal(&catalogue->changed);
	}
	pthread_mutex_unlock(&catalogue->lock);
	return taken;
}

unsigned catalogue_waiting(const struct catalogue *catalogue)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&catalogue->lock;
	if (!catalogue->running)
		return 0;
	pthread_mutex_lock(lock);
	unsigned waiting = catalogue->waiting;
	pthread_mutex_unlock(lock);
	return waiting;
}

const char *catalogue_sqlite(void)
{
	return sqlite3_libversion();
}
