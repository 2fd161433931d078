/* serve.c - see serve.h. Thread: the loop's; what asks the catalogue runs on the catalogue's thread and comes back. */
#include "serve.h"
#include "daemon/catalogue/captures.h"
#include "daemon/catalogue/deleted.h"
#include "daemon/capture/capture.h"
#include "base/clock.h"
#include "daemon/core/namespaces.h"
#include "proto/version.h"
#include "serve_kept.h"
#include "daemon/capture/trigger.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROBE_NS 2000000000ull
/* Rows that the catalogue is asked for at a time. */
#define PAGE_ROWS 50
#define CAPTURES_DEFAULT 100
#define PS_ROWS 32

/* --- status, ps --- */

static void serve_status(struct conn *conn)
{
	struct server *server = conn->server;
	unsigned running = 0, unstored = 0, processes = 0;
	for (const struct capture *capture = server->captures; capture; capture = capture->next) {
		running += capture->state != STATE_DROPPED && conn_may(conn, capture->facts.who.uid);
		unstored += capture->catalogued && !capture->told_stored && conn_may(conn, capture->facts.who.uid);
	}
	for (const struct process *process = server->processes; process; process = process->next)
		processes += conn_may(conn, process->who.uid);
	char started[TIME_TEXT_BYTES];
	time_text(server->started_at, started);
	cJSON *row = conn_row_new("daemon");
	cJSON_AddStringToObject(row, "version", PROFD_VERSION);
	registry_add_pid(row, conn->pid_namespace == server->pid_namespace ? getpid() : 0);
	cJSON_AddNumberToObject(row, "uid", getuid());
	cJSON_AddStringToObject(row, "socket", server->socket_path);
	cJSON_AddStringToObject(row, "directory", server->directory);
	cJSON_AddStringToObject(row, "started_at", started);
	cJSON_AddNumberToObject(row, "processes", processes);
	cJSON_AddNumberToObject(row, "running", running);
	struct usage_owner stored = usage_sum(&server->usage, conn->admin, conn->peer.uid);
	cJSON_AddNumberToObject(row, "captures", (double)(stored.captures + unstored));
	cJSON_AddNumberToObject(row, "store_bytes", (double)stored.bytes);
	cJSON_AddBoolToObject(row, "user", server->user);
	conn_row(conn, row);
	conn_end(conn, NULL);
}

static void process_row(struct conn *conn, const struct process *process)
{
	cJSON *row = conn_row_new("process");
	registry_describe(process, conn->pid_namespace, row);
	conn_row(conn, row);
}

/* Processes in the order of their registration, a few at a time; cursor is the serial of the last. */
static void produce_ps(struct conn *conn)
{
	for (unsigned i = 0; i < PS_ROWS && conn->queued < SERVER_QUEUE_LOW; i++) {
		const struct process *next = NULL;
		for (const struct process *process = conn->server->processes; process; process = process->next)
			if (process->serial > conn->cursor && conn_may(conn, process->who.uid) &&
			    (!next || process->serial < next->serial))
				next = process;
		if (!next) {
			conn_end(conn, NULL);
			return;
		}
		conn->cursor = next->serial;
		process_row(conn, next);
	}
	/* With an empty queue nobody would call again. */
	if (!conn->first && !conn->closed && conn->produce)
		produce_ps(conn);
}

/* The one process of "pid", or an error sent. */
static struct process *named_process(struct conn *conn)
{
	int32_t pid = conn->request.pids[0];
	struct process *process = registry_find_for(conn, pid);
	enum error error = ERROR_NONE;
	if (!process)
		error = registry_missing(conn, pid);
	else if (!conn_may(conn, process->who.uid))
		error = ERROR_NOT_YOURS;
	if (!error)
		return process;
	static const char *const words[] = {
		[REQUEST_ps] = "ps", [REQUEST_doctor] = "doctor", [REQUEST_cancel] = "cancel"};
	if (error == ERROR_NOT_YOURS)
		audit_refused(conn, words[conn->request.op], "", error, process ? process->who.pid : pid,
			      process ? process->who.uid : audit_owner(pid));
	char detail[32];
	snprintf(detail, sizeof detail,
		 error == ERROR_NOT_YOURS   ? "process %d"
		 : error == ERROR_NO_TARGET ? "pid %d"
					    : "%d",
		 pid);
	conn_error(conn, error, detail, pid);
	return NULL;
}

static void serve_ps(struct conn *conn)
{
	if (conn->request.pid_count) {
		const struct process *process = named_process(conn);
		if (!process)
			return;
		process_row(conn, process);
		conn_end(conn, NULL);
		return;
	}
	conn->cursor = 0;
	conn->produce = produce_ps;
	produce_ps(conn);
}

/* --- doctor --- */

static void collector_row(struct conn *conn, uint32_t collector, bool available, const char *sentence);

static void serve_doctor(struct conn *conn)
{
	struct process *process = named_process(conn);
	if (!process)
		return;
	process_row(conn, process);
	if (registry_has_new_filter(process)) {
		collector_row(conn, COLLECTOR_STEPS, false, registry_filter_sentence);
		conn_end(conn, NULL);
		return;
	}
	conn->probing = process;
	conn->probe_deadline = clock_monotonic() + PROBE_NS;
	conn->server->probes++;
	struct message_probe probe = MESSAGE_INIT(PROBE, probe);
	conn_send(process->conn, &probe, sizeof probe, -1);
	server_tick_adjust(conn->server);
}

static void probe_over(struct conn *conn)
{
	conn->probing = NULL;
	conn->server->probes--;
	server_tick_adjust(conn->server);
}

static void collector_row(struct conn *conn, unsigned collector, bool available, const char *sentence)
{
	const char *word = collector_word(collector);
	if (!word)
		return;
	cJSON *row = conn_row_new("collector");
	cJSON_AddStringToObject(row, "collector", word);
	cJSON_AddBoolToObject(row, "available", available);
	cJSON_AddStringToObject(row, "sentence", sentence);
	conn_row(conn, row);
}

void serve_probe_answer(struct process *process, const struct message_collector *answer)
{
	/* Answers come in the order of the questions. */
	struct conn *conn = NULL;
	for (struct conn *candidate = process->server->conns; candidate; candidate = candidate->next)
		if (candidate->probing == process && (!conn || candidate->probe_deadline < conn->probe_deadline))
			conn = candidate;
	if (!conn)
		return;
	if (answer->available == 2) {
		probe_over(conn);
		conn_end(conn, NULL);
		return;
	}
	/* Shapes come with operators, wherever these do. */
	if (answer->collector == COLLECTOR_SHAPES)
		return;
	collector_row(conn, answer->collector, answer->available == 1, answer->sentence);
	if (answer->collector == COLLECTOR_TORCH)
		collector_row(conn, COLLECTOR_SHAPES, answer->available == 1,
			      answer->available == 1 ? "of operators' inputs, by --shapes" : answer->sentence);
}

void serve_probe_gone(struct process *process)
{
	for (struct conn *conn = process->server->conns, *next; conn; conn = next) {
		next = conn->next;
		if (conn->probing != process)
			continue;
		char text[16];
		int32_t pid = registry_visible_pid(process, conn->pid_namespace);
		snprintf(text, sizeof text, "%d", pid);
		probe_over(conn);
		conn_error(conn, ERROR_GONE, text, pid);
	}
}

void serve_tick(struct conn *conn, uint64_t now)
{
	if (now < conn->probe_deadline)
		return;
	char detail[128];
	int32_t pid = registry_visible_pid(conn->probing, conn->pid_namespace);
	snprintf(detail, sizeof detail, "the agent of process %d does not answer; is the process stopped?", pid);
	probe_over(conn);
	conn_error(conn, ERROR_TIMEOUT, detail, pid);
}

/* --- what the catalogue knows --- */

struct query {
	struct work work;
	struct server *server;
	struct conn *conn; /* a reference */
	/* captures */
	struct catalogue_filter filter;
	unsigned room;
	int count;
	struct capture_facts *rows;
	/* summary, open */
	uint64_t number;
	char *text;
	int fd;
	uint64_t bytes;
	bool was_deleted; /* and this is what is known of it */
	struct deleted_facts deleted;
};

static const char slow_disk[] = "the daemon's disk does not keep up; try again in a moment";

static struct query *query_new(struct conn *conn, int64_t (*run)(struct work *work), void (*done)(struct work *work))
{
	struct query *query = calloc(1, sizeof *query);
	if (!query)
		return NULL;
	query->work = (struct work){.run = run, .done = done};
	query->server = conn->server;
	query->conn = conn_ref(conn);
	query->fd = -1;
	return query;
}

static void query_free(struct query *query)
{
	if (query->fd >= 0)
		close(query->fd);
	quota_answered(query->server, query->conn->user);
	conn_unref(query->conn);
	free(query->rows);
	free(query->text);
	free(query);
}

static void query_submit(struct query *query)
{
	struct conn *conn = query->conn;
	if (quota_ask(query->server, conn->user, &query->work))
		return;
	conn->fetching = false;
	conn->user->queries++; /* which query_free takes back */
	conn_error(conn, ERROR_FAILED, slow_disk, 0);
	query_free(query);
}

/* Was the query never asked? Then that has been said. */
static bool never_asked(struct query *query)
{
	if (query->work.run)
		return false;
	if (!query->conn->closed)
		conn_error(query->conn, ERROR_FAILED, slow_disk, 0);
	query_free(query);
	return true;
}

/* A capture that is under way is further than its row. */
static void freshen(const struct server *server, struct capture_facts *facts)
{
	const struct capture *capture = capture_find((struct server *)server, facts->number);
	if (!capture || capture->state == STATE_STORING)
		return;
	facts->status = capture_status_now(capture);
	if (capture->ingest && capture->ingest->has_segment && capture->state == STATE_RUNNING) {
		uint32_t steps = atomic_load(&capture->ingest->segment.header->steps_recorded);
		facts->steps_recorded = steps > facts->steps_wanted ? facts->steps_wanted : steps;
	}
}

static int64_t list_run(struct work *work)
{
	struct query *query = (struct query *)work;
	query->rows = calloc(query->room, sizeof *query->rows);
	query->count = query->rows ? catalogue_list(&query->server->catalogue, &query->filter, query->rows, query->room)
				   : -ENOMEM;
	return WORK_DONE;
}

/* Of a trigger's captures it is also told whether more are to come. */
static void end_list(struct conn *conn)
{
	cJSON *end = NULL;
	uint64_t trigger = trigger_id_parse(conn->request.trigger_id, conn->server->user);
	if (trigger && conn->server->parking) {
		/* What is parked is not known here any more: the next daemon answers. */
		conn_close(conn);
		return;
	}
	if (trigger) {
		unsigned running = 0;
		for (const struct capture *capture = conn->server->captures; capture; capture = capture->next)
			running += capture->facts.trigger == trigger && capture->state != STATE_DROPPED &&
				   conn_may(conn, capture->facts.who.uid);
		end = cJSON_CreateObject();
		cJSON_AddNumberToObject(end, "running", running);
	}
	conn_end(conn, end);
}

static void list_done(struct work *work)
{
	struct query *query = (struct query *)work;
	struct conn *conn = query->conn;
	conn->fetching = false;
	if (never_asked(query))
		return;
	if (conn->closed) {
		query_free(query);
		return;
	}
	for (int i = 0; i < query->count; i++) {
		struct capture_facts *facts = &query->rows[i];
		conn->cursor = facts->number;
		conn->left--;
		freshen(conn->server, facts);
		cJSON *row = conn_row_new("capture");
		capture_describe(conn->server, conn->pid_namespace, facts, row);
		conn_row(conn, row);
	}
	if (query->count < 0)
		conn_error(conn, ERROR_FAILED, "the daemon cannot read its catalogue; its log says why", 0);
	else if (query->count < (int)query->room || conn->left == 0)
		end_list(conn);
	else if (conn->queued < SERVER_QUEUE_LOW)
		conn->produce(conn);
	query_free(query);
}

static void produce_captures(struct conn *conn)
{
	struct query *query = query_new(conn, list_run, list_done);
	if (!query) {
		conn_error(conn, ERROR_FAILED, "the daemon is out of memory", 0);
		return;
	}
	const struct request *request = &conn->request;
	query->filter = (struct catalogue_filter){.all = conn->admin,
						  .uid = conn->peer.uid,
						  .pid = request->pid_count ? request->pids[0] : 0,
						  .own = conn->pid_namespace == conn->server->pid_namespace,
						  .pid_namespace = conn->pid_namespace,
						  .before = conn->cursor,
						  .trigger = trigger_id_parse(request->trigger_id, conn->server->user)};
	text_copy(query->filter.name, sizeof query->filter.name, request->name);
	text_copy(query->filter.job, sizeof query->filter.job, request->job);
	text_copy(query->filter.label, sizeof query->filter.label, request->label);
	query->room = conn->left < PAGE_ROWS ? (unsigned)conn->left : PAGE_ROWS;
	conn->fetching = true;
	query_submit(query);
}

static void serve_captures(struct conn *conn)
{
	if (*conn->request.trigger_id && !trigger_id_parse(conn->request.trigger_id, conn->server->user)) {
		conn_error(conn, ERROR_NO_CAPTURE, conn->request.trigger_id, 0);
		return;
	}
	conn->cursor = INT64_MAX;
	conn->left = conn->request.limit ? conn->request.limit : CAPTURES_DEFAULT;
	conn->produce = produce_captures;
	produce_captures(conn);
}

static int64_t get_run(struct work *work)
{
	struct query *query = (struct query *)work;
	query->rows = calloc(1, sizeof *query->rows);
	query->count = query->rows ? catalogue_get(&query->server->catalogue, query->number, query->rows) : -ENOMEM;
	if (query->count == 0)
		query->was_deleted =
			catalogue_get_deleted(&query->server->catalogue, query->number, &query->deleted) == 1;
	if (query->count != 1 || !conn_may(query->conn, query->rows->who.uid) || query->rows->status < CAPTURE_COMPLETE)
		return WORK_DONE;
	if (query->conn->request.op == REQUEST_summary) {
		query->text = catalogue_read_summary(&query->server->catalogue, query->number);
		return WORK_DONE;
	}
	char name[40];
	struct stat facts;
	snprintf(name, sizeof name, "%" PRIu64 ".db", query->number);
	query->fd = openat(query->server->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (query->fd >= 0 && fstat(query->fd, &facts) == 0)
		query->bytes = (uint64_t)facts.st_size;
	return WORK_DONE;
}

static void send_summary(struct conn *conn, const struct query *query)
{
	const struct capture_facts *facts = query->rows;
	cJSON *row = query->text ? cJSON_Parse(query->text) : NULL;
	if (!row) {
		/* A capture that failed has no file: its facts are all there is. */
		row = cJSON_CreateObject();
		static const char *const lists[] = {"steps", "operators", "ranges", "losses", "collectors"};
		for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
			cJSON_AddArrayToObject(row, lists[i]);
		cJSON_AddObjectToObject(row, "cost");
	}
	cJSON *cost = cJSON_GetObjectItem(row, "cost");
	if (cost && facts->step_after) {
		cJSON_DeleteItemFromObject(cost, "step_after_ns");
		cJSON_AddNumberToObject(cost, "step_after_ns", (double)facts->step_after);
	}
	cJSON_AddStringToObject(row, "row", "summary");
	capture_describe(conn->server, conn->pid_namespace, facts, cJSON_AddObjectToObject(row, "capture"));
	conn_row(conn, row);
	conn_end(conn, NULL);
}

static void get_done(struct work *work)
{
	struct query *query = (struct query *)work;
	struct conn *conn = query->conn;
	struct capture_facts *facts = query->rows;
	bool open = conn->request.op == REQUEST_open;
	char id[ID_BYTES], detail[SENTENCE_BYTES];
	capture_id_text(query->number, query->server->user, id);
	if (never_asked(query))
		return;
	if (conn->closed) {
		query_free(query);
		return;
	}
	if (query->was_deleted && conn_may(conn, query->deleted.uid)) {
		deleted_detail(conn->server, &query->deleted, detail, sizeof detail);
		conn_error(conn, ERROR_NO_CAPTURE, detail, 0);
	} else if (query->count != 1) {
		conn_error(conn, ERROR_NO_CAPTURE, id, 0);
	} else if (!conn_may(conn, facts->who.uid)) {
		snprintf(detail, sizeof detail, "capture %s", id);
		audit_refused(conn, open ? "open" : "summary", id, ERROR_NOT_YOURS, facts->who.pid, facts->who.uid);
		conn_error(conn, ERROR_NOT_YOURS, detail, 0);
	} else if (facts->status < CAPTURE_COMPLETE) {
		/* errors.def speaks of a process: so does the detail. */
		pid_t pid = namespace_pid(&facts->who, conn->server->pid_namespace, conn->pid_namespace);
		snprintf(detail, sizeof detail, "%d (capture %s)", pid, id);
		if (pid <= 0)
			snprintf(detail, sizeof detail, "%s (capture %s)", facts->who.name, id);
		conn_error(conn, ERROR_BUSY, detail, pid);
	} else if (!open) {
		send_summary(conn, query);
	} else if (query->fd < 0) {
		snprintf(detail, sizeof detail, "capture %s has no file%s%s", id, *facts->reason ? ": " : "",
			 facts->reason);
		conn_error(conn, ERROR_FAILED, detail, 0);
	} else {
		cJSON *row = conn_row_new("file");
		capture_describe(conn->server, conn->pid_namespace, facts, row);
		cJSON_DeleteItemFromObject(row, "bytes");
		cJSON_AddNumberToObject(row, "bytes", (double)query->bytes);
		char *text = cJSON_PrintUnformatted(row);
		cJSON_Delete(row);
		if (text)
			conn_send(conn, text, strlen(text), query->fd);
		free(text);
		audit_done(conn, "open", id, "opened", facts->who.pid, facts->who.uid);
		conn_end(conn, NULL);
	}
	query_free(query);
}

static void serve_get(struct conn *conn)
{
	uint64_t number = capture_id_parse(conn->request.capture_id, conn->server->user);
	if (!number) {
		conn_error(conn, ERROR_NO_CAPTURE, conn->request.capture_id, 0);
		return;
	}
	struct query *query = query_new(conn, get_run, get_done);
	if (!query) {
		conn_error(conn, ERROR_FAILED, "the daemon is out of memory", 0);
		return;
	}
	query->number = number;
	query_submit(query);
}

/* --- cancel --- */

static bool named_by_cancel(const struct conn *conn, const struct capture *capture, const struct process *process)
{
	const struct request *request = &conn->request;
	bool user = conn->server->user;
	if (*request->capture_id)
		return capture->facts.number == capture_id_parse(request->capture_id, user);
	if (*request->trigger_id)
		return capture->facts.trigger == trigger_id_parse(request->trigger_id, user);
	if (request->pid_count)
		return capture->facts.who.pid == process->who.pid &&
		       capture->facts.who.start_time == process->who.start_time;
	/* All that one may end. */
	return conn_may(conn, capture->facts.who.uid);
}

/* By an earlier daemon; its agent has not come back yet. */
static bool is_left(const struct capture *capture)
{
	return capture->state == STATE_ORPHAN;
}

/* Its records are being put into order, which takes moments; where it takes longer it can be ended by its own number. */
static bool is_finishing(const struct capture *capture)
{
	return capture->state == STATE_ENDING || capture->state == STATE_FINISHING;
}

/* Returns whether it was a capture that anybody has seen. */
static bool cancel(struct conn *conn, struct capture *capture)
{
	const struct identity *who = &capture->facts.who;
	bool left = is_left(capture);
	char id[ID_BYTES];
	capture_id_text(capture->facts.number, conn->server->user, id);
	if (!capture_give_up(capture))
		capture_cancel(capture, REASON_CANCELLED);
	if (capture->trigger)
		capture->trigger->wait_until = 0;
	/* A cycle that was only prepared is none. */
	if (capture->facts.cycle && !left && capture_status_now(capture) == CAPTURE_ARMED)
		return false;
	audit_done(conn, "cancel", id, "cancelled", who->pid, who->uid);
	cJSON *row = conn_row_new("cancelled");
	cJSON_AddStringToObject(row, "capture_id", id);
	registry_add_pid(row, namespace_pid(who, conn->server->pid_namespace, conn->pid_namespace));
	cJSON_AddNumberToObject(row, "uid", who->uid);
	cJSON_AddStringToObject(row, "user", who->user);
	cJSON_AddStringToObject(row, "name", who->name);
	conn_row(conn, row);
	return true;
}

static void serve_cancel(struct conn *conn)
{
	unsigned cancelled = 0;
	const struct capture *other = NULL;
	const struct process *process = NULL;
	const struct request *request = &conn->request;
	/* Whether another's process is being recorded is not said either. */
	if (request->pid_count && !(process = named_process(conn)))
		return;
	for (struct capture *capture = conn->server->captures; capture; capture = capture->next) {
		bool can_end = capture_is_running(capture) || is_left(capture) ||
			       (*request->capture_id && is_finishing(capture));
		if (!can_end || !named_by_cancel(conn, capture, process))
			continue;
		if (conn_may(conn, capture->facts.who.uid))
			cancelled += cancel(conn, capture);
		else
			other = capture;
	}
	/* A trigger that still waits for its process has no capture yet, but can be ended. */
	for (struct trigger *trigger = conn->server->triggers; trigger; trigger = trigger->next)
		if (*request->trigger_id && conn_may(conn, trigger->by.uid) && trigger->wait_until &&
		    trigger->number == trigger_id_parse(request->trigger_id, conn->server->user)) {
			trigger->wait_until = 0;
			cancelled++;
			audit_done(conn, "cancel", request->trigger_id, "cancelled", 0, trigger->by.uid);
		}
	const char *what = *request->capture_id	  ? request->capture_id
			   : *request->trigger_id ? request->trigger_id
						  : "under way";
	if (cancelled) {
		conn_end(conn, NULL);
	} else if (other) {
		audit_refused(conn, "cancel", what, ERROR_NOT_YOURS, other->facts.who.pid, other->facts.who.uid);
		conn_error(conn, ERROR_NOT_YOURS, "that capture", 0);
	} else {
		conn_error(conn, ERROR_NO_CAPTURE, what, 0);
	}
}

void serve_packet(struct conn *conn, const char *packet, size_t n, int fd)
{
	char sentence[SENTENCE_BYTES];
	conn->busy = true;
	enum error error = request_parse(&conn->request, packet, n, sentence, sizeof sentence);
	if (error) {
		conn_error(conn, error, sentence, 0);
		return;
	}
	if (!namespace_knows_uid(conn->peer.uid)) {
		conn_error(conn, ERROR_UNAVAILABLE, NAMESPACE_UID_SENTENCE, 0);
		return;
	}
	if (!conn->located) {
		conn->pid_namespace = namespace_of_caller(conn->server->pid_namespace, conn->peer.pid, fd);
		conn->located = true;
		/* Root in a container, and groups that it has given itself, are the machine's own to the kernel: not to us. */
		conn->admin = conn->admin && conn->pid_namespace == conn->server->pid_namespace;
	}
	switch (conn->request.op) {
	case REQUEST_status:
		serve_status(conn);
		break;
	case REQUEST_ps:
		serve_ps(conn);
		break;
	case REQUEST_doctor:
		serve_doctor(conn);
		break;
	case REQUEST_trigger:
		if (!retention_defers(conn, packet, n))
			trigger_start(conn, packet, n);
		break;
	case REQUEST_cancel:
		serve_cancel(conn);
		break;
	case REQUEST_captures:
		serve_captures(conn);
		break;
	case REQUEST_summary:
	case REQUEST_open:
		serve_get(conn);
		break;
	case REQUEST_rm:
	case REQUEST_pin:
	case REQUEST_unpin:
		serve_change(conn);
		break;
	case REQUEST_deleted:
		serve_deleted(conn);
		break;
	case REQUEST_metrics:
		metrics_serve(conn);
		break;
	case REQUEST_audit:
		audit_serve(conn);
		break;
	case REQUEST_NONE:
		conn_end(conn, NULL);
		break;
	}
}
