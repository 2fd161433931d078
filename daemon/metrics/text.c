/* text.c - see text.h. Thread: the loop's. No locks.
 *
 * Names follow Prometheus' conventions. What is not known is absent. The daemon's own resources are profd_process_*, not
 * process_*: a textfile's would clash with node_exporter's own. A job's label is job_id: `job` is Prometheus' for the
 * scrape and would arrive as exported_job. */
#include "text.h"
#include "daemon/capture/registry_row.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "daemon/capture/capture.h"
#include "daemon/capture/live.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/catalogue/usage.h"
#include "daemon/core/connection.h"
#include "daemon/core/server.h"
#include "exposition.h"
#include "proto/version.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define COUNTER "counter"
#define GAUGE "gauge"
#define HISTOGRAM "histogram"

/* --- jobs --- */

#define OTHER "other"

/* What is told of a job; made of its processes. */
struct job {
	char id[128];
	uint64_t processes, serial; /* serial: of its oldest process */
	uint64_t step_ns;	    /* of its slowest process; 0 = none has stepped */
	uint64_t last;		    /* CLOCK_MONOTONIC ns of the newest step; 0 = none */
};

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct job *)a)->id, ((const struct job *)b)->id);
}

/* The largest first, of equals the oldest. So a job keeps its place while others come and go. */
static int by_size(const void *a, const void *b)
{
	const struct job *x = a, *y = b;
	if (x->processes != y->processes)
		return x->processes < y->processes ? 1 : -1;
	return ORDER(x->serial, y->serial);
}

static void add_job(struct job *to, const struct job *from)
{
	to->processes += from->processes;
	if (from->serial < to->serial)
		to->serial = from->serial;
	if (from->step_ns > to->step_ns)
		to->step_ns = from->step_ns;
	if (from->last > to->last)
		to->last = from->last;
}

static void describe_job(const struct process *process, uint64_t now, struct job *ret)
{
	const struct identity *who = &process->who;
	*ret = (struct job){.processes = 1, .serial = process->serial};
	text_copy(ret->id, sizeof ret->id, *who->job ? who->job : *who->name ? who->name : OTHER);
	/* Jobs whose names are written alike are one, so the names are cleaned before they are compared. */
	text_clean(ret->id, strlen(ret->id));
	ret->step_ns = registry_step_ns(process);
	uint64_t last = atomic_load_explicit(&process->page->last, memory_order_relaxed);
	ret->last = last <= now ? last : 0;
}

/* *ret_jobs is to be freed; the last one is OTHER, with 0 processes where nothing was left for it. Returns how many. */
static size_t find_jobs(const struct server *server, struct job **ret_jobs)
{
	uint64_t now = clock_monotonic();
	struct job *jobs = calloc(live_of(server)->process_count + 1, sizeof *jobs);
	struct job other = {.id = OTHER, .serial = UINT64_MAX};
	size_t n = 0, kept = 0;
	*ret_jobs = jobs;
	if (!jobs)
		return 0;
	for (const struct process *process = live_of(server)->processes; process && n < live_of(server)->process_count;
	     process = process->next)
		describe_job(process, now, &jobs[n++]);
	qsort(jobs, n, sizeof *jobs, by_id);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(jobs[i].id, OTHER) == 0)
			add_job(&other, &jobs[i]);
		else if (kept && strcmp(jobs[kept - 1].id, jobs[i].id) == 0)
			add_job(&jobs[kept - 1], &jobs[i]);
		else
			jobs[kept++] = jobs[i];
	}
	qsort(jobs, kept, sizeof *jobs, by_size);
	for (; kept > server->config.metrics_jobs; kept--)
		add_job(&other, &jobs[kept - 1]);
	jobs[kept++] = other;
	return kept;
}

static void write_jobs(const struct server *server, struct exposition *to)
{
	struct job *jobs;
	size_t n = find_jobs(server, &jobs);
	uint64_t now = clock_monotonic(), real = clock_realtime();
	exposition_family(
		to, "profd_job_processes", GAUGE,
		"Registered processes of a job. job_id: the launcher's id of the job, or where it has none the "
		"name of its processes; other: all jobs beyond metrics_jobs together.");
	for (size_t i = 0; i < n; i++)
		if (jobs[i].processes)
			exposition_count(to, jobs[i].processes, "job_id", jobs[i].id, NULL);
	exposition_family(
		to, "profd_step_seconds", GAUGE,
		"Step time of a job: of each process the median of its last 16 steps, of these the longest. Absent "
		"until a step was timed.");
	for (size_t i = 0; i < n; i++)
		if (jobs[i].step_ns)
			exposition_seconds(to, jobs[i].step_ns, "job_id", jobs[i].id, NULL);
	exposition_family(to, "profd_last_step_timestamp_seconds", GAUGE,
			  "When the newest step of any process of a job ended. Absent until one has.");
	for (size_t i = 0; i < n; i++)
		if (jobs[i].last)
			exposition_seconds(to, real - (now - jobs[i].last), "job_id", jobs[i].id, NULL);
	free(jobs);
}

/* --- the daemon --- */

static void write_daemon(const struct server *server, struct exposition *to)
{
	unsigned kinds[3] = {0};
	static const char *const words[3] = {
		[CONN_UNKNOWN] = "unknown", [CONN_CLIENT] = "client", [CONN_AGENT] = "agent"};
	exposition_family(to, "profd_build_info", GAUGE, "Always 1; the labels say what runs.");
	exposition_count(to, 1, "version", PROFD_VERSION, "libuv", uv_version_string(), "sqlite", catalogue_sqlite(),
			 NULL);
	exposition_family(to, "profd_start_time_seconds", GAUGE, "When the daemon started.");
	exposition_seconds(to, server->started_at, NULL);
	exposition_family(to, "profd_exposition_timestamp_seconds", GAUGE,
			  "When this text was made: an old one in a textfile means that the daemon is gone or stuck.");
	exposition_seconds(to, clock_realtime(), NULL);
	for (const struct conn *conn = server->conns; conn; conn = conn->next)
		kinds[conn->kind]++;
	exposition_family(to, "profd_connections", GAUGE, "Open connections to the daemon's socket.");
	for (unsigned i = 0; i < 3; i++)
		exposition_count(to, kinds[i], "kind", words[i], NULL);
	exposition_family(to, "profd_processes", GAUGE, "Registered processes: those that can be triggered.");
	exposition_count(to, live_of(server)->process_count, NULL);
}

static void write_triggers(const struct counters *counters, struct exposition *to)
{
	exposition_family(
		to, "profd_triggers_total", COUNTER,
		"Triggers by outcome: accepted (at least one process was armed), or the word of the error that "
		"its user was told.");
	for (unsigned i = 0; i < COUNTERS_ERRORS; i++)
		if (i == 0 || error_word(i))
			exposition_count(to, counters->triggers[i], "outcome", i ? error_word(i) : "accepted", NULL);
	exposition_family(to, "profd_audit_refusals_total", COUNTER, "Audit lines of what was refused, by error.");
	for (unsigned i = 1; i < COUNTERS_ERRORS; i++)
		if (error_word(i) && (counters->refusals[i] || i == ERROR_NOT_YOURS || i == ERROR_QUOTA))
			exposition_count(to, counters->refusals[i], "error", error_word(i), NULL);
}

/* --- captures --- */

static uint32_t queued_chunks(const struct capture *capture)
{
	const struct ingest *ingest = capture->ingest;
	uint32_t n = 0;
	if (!ingest || !ingest->has_segment)
		return 0;
	const struct segment *segment = &ingest->segment;
	uint32_t ready = atomic_load_explicit(&segment->header->chunks_ready, memory_order_acquire);
	if (ready > segment->chunk_count)
		ready = segment->chunk_count;
	for (uint32_t i = 0; i < ready; i++)
		n += atomic_load_explicit(&segment->table[i].state, memory_order_relaxed) == CHUNK_FULL;
	return n;
}

static void write_running(const struct server *server, struct exposition *to)
{
	uint64_t running[CAPTURE_COMPLETE + 1] = {0}, chunks = 0;
	for (const struct capture *capture = live_of(server)->captures; capture; capture = capture->next) {
		if (capture->state == STATE_DROPPED)
			continue;
		enum capture_status status = capture_status_now(capture);
		/* A capture that has ended but has no row yet counts as finishing. */
		running[status < CAPTURE_COMPLETE ? status : CAPTURE_FINISHING]++;
		chunks += queued_chunks(capture);
	}
	exposition_family(to, "profd_captures_running", GAUGE, "Captures under way.");
	for (unsigned status = 0; status < CAPTURE_COMPLETE; status++)
		exposition_count(to, running[status], "status", capture_status_word(status), NULL);
	exposition_family(to, "profd_ingest_queue_chunks", GAUGE,
			  "Chunks of events that jobs have filled and the daemon has not taken in yet.");
	exposition_count(to, chunks, NULL);
}

static void write_captured(const struct counters *counters, struct exposition *to)
{
	exposition_family(to, "profd_captures_total", COUNTER,
			  "Captures that have ended since the daemon started, by status and by the reason for what is "
			  "missing.");
	for (unsigned status = CAPTURE_COMPLETE; status < CAPTURE_STATUS_COUNT; status++)
		for (unsigned reason = 0; reason < COUNTERS_REASONS && cancel_reason_word(reason); reason++)
			if ((status == CAPTURE_COMPLETE) == (reason == REASON_NONE) ||
			    counters->captures[status][reason])
				exposition_count(to, counters->captures[status][reason], "status",
						 capture_status_word(status), "reason", cancel_reason_word(reason),
						 NULL);
	exposition_family(to, "profd_steps_recorded_total", COUNTER, "Steps in the captures that have ended.");
	exposition_count(to, counters->steps, NULL);
	exposition_family(to, "profd_events_total", COUNTER, "Events in the captures that have ended.");
	exposition_count(to, counters->events, NULL);
	exposition_family(
		to, "profd_events_lost_total", COUNTER,
		"Events that are in no capture although they happened while it was recorded, by what became of "
		"them; unwritten: the capture's file could not be written.");
	for (unsigned loss = 0; loss < LOSS_COUNT; loss++)
		if (loss_name(loss) && loss_is_loss(loss))
			exposition_count(to, counters->lost[loss], "loss", loss_name(loss), NULL);
	exposition_count(to, counters->unwritten, "loss", "unwritten", NULL);
	exposition_family(
		to, "profd_events_flawed_total", COUNTER,
		"Events that are in a capture with a flaw: without their name, cut at the end of the recording, ...");
	for (unsigned loss = 0; loss < LOSS_COUNT; loss++)
		if (loss_name(loss) && !loss_is_loss(loss))
			exposition_count(to, counters->lost[loss], "flaw", loss_name(loss), NULL);
	exposition_family(to, "profd_ingest_events_total", COUNTER, "Events taken in from running captures.");
	exposition_count(to, atomic_load_explicit(&counters->flow.events, memory_order_relaxed), NULL);
	exposition_family(to, "profd_ingest_bytes_total", COUNTER, "Bytes of events taken in from running captures.");
	exposition_count(to, atomic_load_explicit(&counters->flow.bytes, memory_order_relaxed), NULL);
	exposition_family(
		to, "profd_derive_seconds", HISTOGRAM,
		"From a capture's last event taken in to its finished file: attribution, summary, sync to disk.");
	exposition_histogram(to, &counters->derive);
}

/* --- store --- */

static void write_store(const struct server *server, const struct metrics_slow *slow, struct exposition *to)
{
	static const char *const words[] = {
#define ROW(word) #word,
		COUNTERS_DELETED(ROW)
#undef ROW
	};
	const struct counters *counters = &server->counters;
	const struct config *config = &server->config;
	struct usage_owner stored = usage_sum(usage_of(server), true, 0);
	exposition_family(to, "profd_store_captures", GAUGE, "Finished captures in the store.");
	exposition_count(to, stored.captures, NULL);
	exposition_family(to, "profd_store_bytes", GAUGE, "Bytes of the finished captures in the store.");
	exposition_count(to, stored.bytes, NULL);
	exposition_family(to, "profd_store_limit_captures", GAUGE,
			  "Captures that the store may hold (store_captures). Absent: no limit.");
	if (config->store_captures)
		exposition_count(to, config->store_captures, NULL);
	exposition_family(to, "profd_store_limit_bytes", GAUGE,
			  "Bytes that the store may hold (store_bytes). Absent: no limit.");
	if (config->store_bytes)
		exposition_count(to, config->store_bytes, NULL);
	if (slow->at && slow->disk_known) {
		exposition_family(to, "profd_store_size_bytes", GAUGE, "Size of the store's file system.");
		exposition_count(to, slow->size_bytes, NULL);
		exposition_family(to, "profd_store_free_bytes", GAUGE, "Free space on the store's file system.");
		exposition_count(to, slow->free_bytes, NULL);
		exposition_family(to, "profd_store_floor_bytes", GAUGE,
				  "Free space below which captures are deleted, then none begins (free_space, at most "
				  "free_space_percent). Absent: no floor.");
		uint64_t most = slow->size_bytes / 100 * config->free_space_percent;
		uint64_t floor = config->free_space < most ? config->free_space : most;
		if (floor)
			exposition_count(to, floor, NULL);
	}
	exposition_family(to, "profd_captures_deleted_total", COUNTER,
			  "Captures deleted, by what asked for it: a key of profd.conf, or a user's rm (by snapshots "
			  "with --keep, too).");
	for (unsigned i = 0; i < COUNTERS_DELETED_COUNT; i++)
		exposition_count(to, counters->deleted[i], "reason", words[i], NULL);
	exposition_family(to, "profd_captures_deleted_bytes_total", COUNTER, "Bytes of the captures deleted.");
	for (unsigned i = 0; i < COUNTERS_DELETED_COUNT; i++)
		exposition_count(to, counters->deleted_bytes[i], "reason", words[i], NULL);
	exposition_family(to, "profd_catalogue_waiting", GAUGE,
			  "Rows and questions that wait for the catalogue: many where the disk does not keep up.");
	exposition_count(to, catalogue_waiting(catalogue_of(server)), NULL);
}

/* --- loop and process --- */

static uint64_t timeval_ns(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_usec * 1000u;
}

static void write_process(const struct counters *counters, const struct metrics_slow *slow, struct exposition *to)
{
	struct rusage usage;
	struct rlimit descriptors;
	exposition_family(to, "profd_loop_latency_seconds", HISTOGRAM,
			  "How late the daemon's loop came to a timer that was due or to work that was done.");
	exposition_histogram(to, &counters->latency);
	exposition_family(
		to, "profd_loop_turn_seconds", HISTOGRAM,
		"How long the daemon's loop was at work between two waits: what became ready meanwhile waited.");
	exposition_histogram(to, &counters->turn);
	exposition_family(to, "profd_process_cpu_seconds_total", COUNTER, "Processor time of the daemon.");
	if (getrusage(RUSAGE_SELF, &usage) == 0)
		exposition_seconds(to, timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime), NULL);
	exposition_family(to, "profd_process_max_fds", GAUGE, "Descriptors that the daemon may open.");
	if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0 && descriptors.rlim_cur != RLIM_INFINITY)
		exposition_count(to, descriptors.rlim_cur, NULL);
	if (!slow->at)
		return;
	exposition_family(to, "profd_process_open_fds", GAUGE, "Descriptors that the daemon has open.");
	if (slow->descriptors)
		exposition_count(to, slow->descriptors, NULL);
	exposition_family(to, "profd_process_resident_memory_bytes", GAUGE, "Memory of the daemon.");
	if (slow->resident_bytes)
		exposition_count(to, slow->resident_bytes, NULL);
	exposition_family(to, "profd_process_threads", GAUGE, "Threads of the daemon.");
	if (slow->threads)
		exposition_count(to, slow->threads, NULL);
}

void metrics_write(const struct server *server, const struct metrics_slow *slow, struct exposition *to)
{
	write_daemon(server, to);
	write_jobs(server, to);
	write_triggers(&server->counters, to);
	write_running(server, to);
	write_captured(&server->counters, to);
	write_store(server, slow, to);
	write_process(&server->counters, slow, to);
}
