/* metrics.c - see metrics.h. Thread: the loop's, except for slow_run and write_run, which have a thread of their own: a
 * disk that hangs then holds up neither the loop nor the catalogue. No locks. */
#include "metrics.h"
#include "exposition.h"
#include "listener.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "daemon/core/server.h"
#include "textfile.h"

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* How long an answer waits for the figures of a disk; then it goes out without them. */
#define PATIENCE_MS 1000
/* Facts of this age are as good as new: many that ask at once cost one look. */
#define FRESH_NS 500000000ull

#define MILLISECOND 1000000ull

struct metrics *metrics_of(const struct server *server)
{
	return room_state(server, ROOM_METRICS);
}

/* --- the loop --- */

/* Before each wait: measures how long the loop was at work since the last one. What became ready in that time had to
 * wait. */
static void turned(uv_prepare_t *prepare)
{
	struct server *server = prepare->data;
	struct metrics *metrics = metrics_of(server);
	uint64_t now = clock_monotonic(), idle = uv_metrics_idle_time(&server->loop);
	if (metrics->turned_at) {
		uint64_t all = now - metrics->turned_at, slept = idle - metrics->idle_before;
		histogram_add(&server->counters.turn, all > slept ? all - slept : 0);
	}
	metrics->turned_at = now;
	metrics->idle_before = idle;
}

/* --- what may take time --- */

/* The number after `key` in a file of /proc, 0 where there is none. */
static uint64_t proc_number(const char *path, const char *key)
{
	char text[4096];
	FILE *file = fopen(path, "re");
	size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
	if (file)
		fclose(file);
	text[n] = 0;
	const char *at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static uint64_t open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	uint64_t n = 0;
	for (const struct dirent *entry; folder && (entry = readdir(folder));)
		n += *entry->d_name != '.';
	if (folder)
		closedir(folder);
	return n ? n - 1 : 0; /* the folder's own */
}

static int64_t slow_run(struct work *work)
{
	struct metrics *metrics = (struct metrics *)((char *)work - offsetof(struct metrics, slow_work));
	struct server *server = metrics->server;
	struct metrics_slow *slow = &metrics->slow_next;
	struct statvfs disk;
	memset(slow, 0, sizeof *slow);
	slow->resident_bytes = proc_number("/proc/self/status", "\nVmRSS:") * 1024;
	slow->threads = proc_number("/proc/self/status", "\nThreads:");
	slow->descriptors = open_descriptors();
	slow->disk_known = fstatvfs(server->folder, &disk) == 0;
	if (slow->disk_known) {
		slow->free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
		slow->size_bytes = (uint64_t)disk.f_blocks * disk.f_frsize;
	}
	slow->at = clock_monotonic();
	return WORK_DONE;
}

struct metrics_waiter {
	struct metrics_waiter *next;
	metrics_ready *ready;
	void *context;
};

/* known: the slow facts are new. */
static void answer(struct server *server, bool known, metrics_ready *ready, void *context)
{
	struct metrics_slow unknown = {0};
	struct exposition exposition;
	if (server->closing) {
		ready(context, NULL, 0);
		return;
	}
	exposition_init(&exposition);
	metrics_write(server, known ? &metrics_of(server)->slow : &unknown, &exposition);
	ready(context, exposition.failed ? NULL : exposition.text, exposition.n);
	exposition_deinit(&exposition);
}

static void answer_all(struct server *server, bool known)
{
	struct metrics *metrics = metrics_of(server);
	if (!uv_is_closing((uv_handle_t *)&metrics->patience))
		uv_timer_stop(&metrics->patience);
	for (struct metrics_waiter *waiter; (waiter = metrics->waiters);) {
		metrics->waiters = waiter->next;
		answer(server, known, waiter->ready, waiter->context);
		free(waiter);
	}
}

static void slow_done(struct work *work)
{
	struct metrics *metrics = (struct metrics *)((char *)work - offsetof(struct metrics, slow_work));
	struct server *server = metrics->server;
	metrics->slow = metrics->slow_next;
	metrics->slow_runs = metrics->slow_late = false;
	answer_all(server, true);
}

static void patience_over(uv_timer_t *timer)
{
	struct server *server = timer->data;
	metrics_of(server)->slow_late = true;
	answer_all(server, false);
}

static bool pool_there(struct server *server)
{
	struct metrics *metrics = metrics_of(server);
	if (!metrics->pool_runs && !server->closing)
		metrics->pool_runs = work_pool_init(&metrics->pool, 1, WORK_NICE, &server->outbox) == 0;
	return metrics->pool_runs;
}

void metrics_ask(struct server *server, metrics_ready *ready, void *context)
{
	struct metrics *metrics = metrics_of(server);
	bool fresh = metrics->slow.at && clock_monotonic() < metrics->slow.at + FRESH_NS;
	struct metrics_waiter *waiter =
		fresh || metrics->slow_late || !pool_there(server) ? NULL : calloc(1, sizeof *waiter);
	if (!waiter) {
		answer(server, fresh, ready, context);
		return;
	}
	*waiter = (struct metrics_waiter){metrics->waiters, ready, context};
	metrics->waiters = waiter;
	if (!uv_is_active((uv_handle_t *)&metrics->patience))
		uv_timer_start(&metrics->patience, patience_over, PATIENCE_MS, 0);
	if (metrics->slow_runs)
		return;
	metrics->slow_runs = true;
	metrics->slow_work = (struct work){.run = slow_run, .done = slow_done};
	work_submit(&metrics->pool, &metrics->slow_work);
}

void metrics_forget(struct server *server, const void *context)
{
	for (struct metrics_waiter **at = &metrics_of(server)->waiters; *at;) {
		struct metrics_waiter *waiter = *at;
		if (waiter->context != context) {
			at = &waiter->next;
			continue;
		}
		*at = waiter->next;
		free(waiter);
	}
}

/* --- the file --- */

static int64_t write_run(struct work *work)
{
	struct metrics *metrics = (struct metrics *)((char *)work - offsetof(struct metrics, write_work));
	if (*metrics->remove_path)
		textfile_remove(metrics->remove_path);
	int error = 0;
	if (*metrics->write_path)
		error = textfile_write(metrics->write_path, metrics->write_text, metrics->write_bytes);
	/* Nobody else looks at it while `writing`. */
	if (error && error != metrics->write_error)
		log_line("metrics_textfile: cannot write %s: %s; trying again every metrics_interval",
			 metrics->write_path, strerror(-error));
	else if (!error && metrics->write_error)
		log_line("metrics_textfile: %s is written again", metrics->write_path);
	metrics->write_error = error;
	return WORK_DONE;
}

static void written(struct work *work)
{
	struct metrics *metrics = (struct metrics *)((char *)work - offsetof(struct metrics, write_work));
	free(metrics->write_text);
	metrics->write_text = NULL;
	metrics->writing = false;
}

static void file_ready(void *context, const char *text, size_t n)
{
	struct server *server = context;
	struct metrics *metrics = metrics_of(server);
	/* The folder hangs. The file is not written meanwhile, and its own timestamp shows its age. */
	if (metrics->writing || server->closing || !text || !pool_there(server))
		return;
	metrics->write_text = malloc(n);
	if (!metrics->write_text)
		return;
	memcpy(metrics->write_text, text, n);
	metrics->write_bytes = n;
	text_copy(metrics->write_path, sizeof metrics->write_path, metrics->path);
	text_copy(metrics->remove_path, sizeof metrics->remove_path, metrics->old_path);
	*metrics->old_path = 0;
	metrics->writing = true;
	metrics->write_work = (struct work){.run = write_run, .done = written};
	work_submit(&metrics->pool, &metrics->write_work);
}

static void interval_over(uv_timer_t *timer)
{
	struct server *server = timer->data;
	metrics_ask(server, file_ready, server);
	/* Without a new file the timer ran only to remove the old one. */
	if (!*metrics_of(server)->path)
		uv_timer_stop(timer);
}

void metrics_reload(struct server *server)
{
	struct metrics *metrics = metrics_of(server);
	const char *path = server->config.metrics_textfile;
	if (strcmp(path, metrics->path) != 0) {
		if (*metrics->path)
			text_copy(metrics->old_path, sizeof metrics->old_path, metrics->path);
		text_copy(metrics->path, sizeof metrics->path, path);
		size_t n = strlen(path);
		if (n && (n < 5 || strcmp(path + n - 5, ".prom") != 0))
			log_line("metrics_textfile: %s does not end in .prom: node_exporter reads no other", path);
	}
	uint64_t interval = server->config.metrics_interval / MILLISECOND;
	if (*path || *metrics->old_path)
		uv_timer_start(&metrics->interval, interval_over, 0, interval);
	else
		uv_timer_stop(&metrics->interval);
}

/* --- life --- */

void metrics_start(struct server *server)
{
	struct metrics *metrics = metrics_of(server);
	metrics->server = server;
	uv_loop_configure(&server->loop, UV_METRICS_IDLE_TIME);
	uv_prepare_init(&server->loop, &metrics->prepare);
	uv_timer_init(&server->loop, &metrics->patience);
	uv_timer_init(&server->loop, &metrics->interval);
	metrics->prepare.data = metrics->patience.data = metrics->interval.data = server;
	uv_prepare_start(&metrics->prepare, turned);
	if (server->config.metrics_port)
		metrics->listener = listener_new(server, (uint16_t)server->config.metrics_port);
	metrics_reload(server);
}

void metrics_stop(struct server *server)
{
	struct metrics *metrics = metrics_of(server);
	listener_free(metrics->listener);
	metrics->listener = NULL;
	uv_close((uv_handle_t *)&metrics->prepare, NULL);
	uv_close((uv_handle_t *)&metrics->patience, NULL);
	uv_close((uv_handle_t *)&metrics->interval, NULL);
	answer_all(server, false);
}

void metrics_deinit(struct server *server)
{
	struct metrics *metrics = metrics_of(server);
	if (metrics->pool_runs)
		work_pool_deinit(&metrics->pool);
	metrics->pool_runs = false;
	free(metrics->write_text);
	metrics->write_text = NULL;
	if (*metrics->old_path)
		textfile_remove(metrics->old_path);
	/* Without a daemon the file's figures would never change. */
	if (*metrics->path)
		textfile_remove(metrics->path);
}
