/* registry.c - see registry.h. Thread: the loop's. No locks. */
#include "registry.h"
#include "capture.h"
#include "family.h"
#include "live.h"
#include "messages.h"
#include "orphans.h"
#include "probe.h"
#include "process_stat.h"
#include "trigger_targets.h"
#include "daemon/catalogue/audit.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/catalogue/history.h"
#include "daemon/core/connection.h"
#include "daemon/core/namespaces.h"
#include "daemon/core/peer.h"
#include "daemon/core/server.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/filters.h"
#include "proto/version.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

pid_t registry_visible_pid(const struct process *process, uint64_t viewer)
{
	return namespace_pid(&process->who, process->server->pid_namespace, viewer);
}

struct process *registry_find(struct server *server, pid_t pid)
{
	for (struct process *process = live_of(server)->processes; process; process = process->next)
		if (process->who.pid == pid)
			return process;
	return NULL;
}

struct process *registry_find_for(const struct conn *conn, pid_t pid)
{
	struct process *found = NULL;
	for (struct process *process = live_of(conn->server)->processes; process; process = process->next)
		if (registry_visible_pid(process, conn->pid_namespace) == pid) {
			found = process;
			if (conn_may(conn, process->who.uid))
				break;
		}
	return found;
}

enum error registry_missing(const struct conn *conn, pid_t pid)
{
	char path[32];
	struct stat facts;
	snprintf(path, sizeof path, "/proc/%d", pid);
	/* A pid of another namespace cannot be looked up from here. */
	if (conn->pid_namespace != conn->server->pid_namespace)
		return ERROR_NO_TARGET;
	/* To a user a zombie is not a process. */
	if (stat(path, &facts) || !process_start_time(pid))
		return ERROR_NO_PROCESS;
	return conn_may(conn, facts.st_uid) ? ERROR_NO_AGENT : ERROR_NOT_YOURS;
}

static int seccomp_filters(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	return filters_of(path);
}

const char registry_filter_sentence[] = "it has set a seccomp filter since it registered; a call of the agent that the "
					"filter forbids would end the process, so it is not recorded. "
					"Record it before it sets the filter, or start it inside the filter";

bool registry_has_new_filter(const struct process *process)
{
	return process->filters >= 0 && seccomp_filters(process->who.pid) > process->filters;
}

bool registry_has_confined_thread(const struct process *process)
{
	static struct filters_seen seen;
	char path[64];
	memset(&seen, 0, sizeof seen);
	snprintf(path, sizeof path, "/proc/%d/task", process->who.pid);
	return process->filters >= 0 && filters_of_threads(path, process->filters, &seen) != 0;
}

/* --- death --- */

/* A child may hold a copy of the agent's socket; then no EOF comes, so the process itself is watched. */
struct watch {
	uv_poll_t poll;
	int fd;
	struct conn *conn;
};

static void watch_closed(uv_handle_t *handle)
{
	struct watch *watch = handle->data;
	close(watch->fd);
	free(watch);
}

static void watch_stop(struct watch *watch)
{
	if (!watch)
		return;
	uv_poll_stop(&watch->poll);
	uv_close((uv_handle_t *)&watch->poll, watch_closed);
}

static void process_died(uv_poll_t *poll, int status, int events)
{
	struct watch *watch = poll->data;
	(void)status, (void)events;
	/* Ends the registration, and this watch with it. */
	conn_drain(watch->conn);
}

/* Takes fd, a pidfd or a negative number, over. NULL where it cannot be watched. */
static struct watch *watch_new(struct conn *conn, int fd)
{
	struct watch *watch = fd >= 0 ? calloc(1, sizeof *watch) : NULL;
	if (!watch || uv_poll_init(&conn->server->loop, &watch->poll, fd)) {
		free(watch);
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	watch->fd = fd;
	watch->conn = conn;
	watch->poll.data = watch;
	uv_poll_start(&watch->poll, UV_READABLE, process_died);
	return watch;
}

/* --- registration --- */

struct register_work {
	struct work work;
	struct server *server;
	uint64_t serial;
	bool gone;
	struct identity who;
};

static int64_t register_run(struct work *work)
{
	struct register_work *registration = (struct register_work *)work;
	struct catalogue *catalogue = catalogue_of(registration->server);
	if (registration->gone) {
		catalogue_process_gone(catalogue, registration->who.pid, registration->who.start_time);
	} else {
		user_name(registration->who.uid, registration->who.user, sizeof registration->who.user);
		catalogue_put_process(catalogue, &registration->who);
	}
	return WORK_DONE;
}

static void registered(struct work *work)
{
	struct register_work *registration = (struct register_work *)work;
	for (struct process *process = live_of(registration->server)->processes; process; process = process->next)
		if (process->serial == registration->serial)
			text_copy(process->who.user, sizeof process->who.user, registration->who.user);
	free(registration);
}

static void put_in_catalogue(const struct process *process, bool gone)
{
	struct register_work *registration = calloc(1, sizeof *registration);
	if (!registration)
		return;
	registration->work = (struct work){.run = register_run, .done = registered};
	registration->server = process->server;
	registration->serial = process->serial;
	registration->gone = gone;
	registration->who = process->who;
	if (!catalogue_submit(catalogue_of(process->server), &registration->work))
		free(registration);
}

static void refuse(struct conn *conn, enum error error, const char *sentence)
{
	struct message_refuse refusal = MESSAGE_INIT(REFUSE, refuse);
	refusal.error = error;
	message_text(refusal.sentence, sizeof refusal.sentence, sentence);
	audit_refused(conn, "agent", sentence, error, conn->peer.pid, conn->peer.uid);
	conn_send(conn, &refusal, sizeof refusal, -1);
	conn_close(conn);
}

static void take_facts(struct process *process, const struct message_hello *hello)
{
	struct identity *who = &process->who;
	process->hello = *hello;
	who->rank = hello->rank;
	who->local_rank = hello->local_rank;
	who->world_size = hello->world_size;
	text_copy(who->host, sizeof who->host, hello->host);
	text_copy(who->name, sizeof who->name, hello->name);
	text_copy(who->command, sizeof who->command, hello->command);
	text_copy(who->job, sizeof who->job, hello->job);
	text_copy(who->launcher, sizeof who->launcher, hello->launcher);
	text_copy(who->torch_version, sizeof who->torch_version, hello->torch_version);
	text_copy(who->agent_version, sizeof who->agent_version, hello->version);
}

/* Checks that the process that says hello is the one that has connected, and can be told from others. Fills the pids in `who`. Returns NULL,
 * or why not. */
static const char *identify(const struct conn *conn, const struct message_hello *hello, int fd, struct identity *who)
{
	/* The kernel shows a process that has no pid in the daemon's namespace as pid 0. */
	if (conn->peer.pid <= 0)
		return "the daemon runs in a pid namespace (a container) from which this process cannot be seen; run "
		       "the daemon on the host, or in the host's pid namespace";
	if (!namespace_knows_uid(conn->peer.uid))
		return NAMESPACE_UID_SENTENCE;
	who->pid = conn->peer.pid;
	who->uid = conn->peer.uid;
	who->start_time = process_start_time(conn->peer.pid);
	if (!namespace_locate(who, conn->server->pid_namespace, hello->pid, fd))
		return "the process that connected is not the one that says hello";
	if (!who->start_time)
		who->start_time = hello->start_time;
	if (!hello->start_time || who->start_time == hello->start_time)
		return NULL;
	/* The pid is right and only the start time is not: its clocks have another origin. */
	return "the process lives in a time namespace, so that its clocks and the daemon's do not agree; run it in the "
	       "host's";
}

/* The one who announced the attachment is known from the kernel. If nobody did, only the process itself says that it
 * was attached to. */
static void audit_attachment(const struct process *process)
{
	const struct identity *who = &process->who;
	struct audit_entry entry = {.by = process->conn->peer,
				    .user = process->conn->user,
				    .trusted = process->conn->admin,
				    .action = "attach",
				    .outcome = "attached",
				    .subject = who->name,
				    .target_pid = who->pid,
				    .target_uid = who->uid};
	char subject[sizeof who->name + 64];
	if (!announced_take(process->server, who, &entry.by)) {
		snprintf(subject, sizeof subject, "%s: only the process itself says so, nobody announced it",
			 who->name);
		entry.outcome = "claimed";
		entry.subject = subject;
	}
	audit_put(process->server, &entry);
}

static void hello_first(struct conn *conn, const struct message_hello *hello, int fd)
{
	struct server *server = conn->server;
	if (hello->major != PROTOCOL_MAJOR) {
		char sentence[200];
		snprintf(sentence, sizeof sentence,
			 "the agent speaks protocol %u, this daemon (profd %s) protocol %d; start the job with the "
			 "agent of the daemon's release",
			 hello->major, PROFD_VERSION, PROTOCOL_MAJOR);
		refuse(conn, ERROR_VERSION, sentence);
		return;
	}
	char sentence[QUOTA_SENTENCE_BYTES];
	enum error error = quota_agent(server, conn->user, sentence);
	if (error) {
		refuse(conn, error, sentence);
		return;
	}
	conn->agent_counted = true;
	/* We read the pid and the start time ourselves: a process cannot register for another one, nor for one that got
	 * its pid later. The pidfd is opened first and examined afterwards: while the process lives, no other has its
	 * pid. */
	int pidfd = peer_pidfd(conn->fd, &conn->peer);
	struct identity who = {0};
	const char *wrong = identify(conn, hello, fd, &who);
	if (!wrong && (pidfd == -ESRCH || (pidfd >= 0 && peer_has_ended(pidfd))))
		wrong = "the process that connected is not the one that says hello";
	if (wrong) {
		if (pidfd >= 0)
			close(pidfd);
		refuse(conn, ERROR_PROTOCOL, wrong);
		return;
	}
	struct watch *watch = watch_new(conn, pidfd);
	/* A process has one connection. Of two, the newer is the valid one (of another program after exec, or of an
	 * agent that connects again after trouble). What is still to be read from the older one is read first. */
	struct process *older = registry_find(server, conn->peer.pid);
	if (older)
		conn_drain(older->conn);
	struct process *process = calloc(1, sizeof *process);
	int page = process ? status_create(&process->page) : -ENOMEM;
	if (page < 0) {
		free(process);
		watch_stop(watch);
		refuse(conn, ERROR_NO_SPACE, "the daemon has no memory for another process");
		return;
	}
	process->server = server;
	process->conn = conn;
	process->watch = watch;
	process->serial = live_of(server)->next_serial++;
	process->registered_at = clock_realtime();
	process->who = who;
	process->filters = seccomp_filters(who.pid);
	snprintf(process->who.user, sizeof process->who.user, "%u", conn->peer.uid);
	take_facts(process, hello);
	family_trace(process);
	process->next = live_of(server)->processes;
	if (process->next)
		process->next->previous = process;
	live_of(server)->processes = process;
	live_of(server)->process_count++;
	conn->owner = process;
	struct message_welcome welcome = MESSAGE_INIT(WELCOME, welcome);
	welcome.major = PROTOCOL_MAJOR;
	welcome.minor = PROTOCOL_MINOR;
	message_text(welcome.version, sizeof welcome.version, PROFD_VERSION);
	conn_send(conn, &welcome, sizeof welcome, page);
	close(page);
	process->afters = 1;
	process->offers_due = hello->orphans;
	log_verbose("pid %d (%s) uid %u registered", process->who.pid, process->who.name, process->who.uid);
	put_in_catalogue(process, false);
	if (hello->entry & ENTRY_ATTACH && hello->entry & ENTRY_NEW)
		audit_attachment(process);
	orphans_offered(process);
	targets_offer(process);
}

void registry_message(struct conn *conn, const union message_any *message, int fd)
{
	struct process *process = conn->owner;
	if (process)
		process->silent = false;
	if (message->head.type == MESSAGE_HELLO) {
		if (process) {
			take_facts(process, &message->hello);
			targets_offer(process);
		} else {
			hello_first(conn, &message->hello, fd);
		}
		return;
	}
	if (!process) {
		audit_refused(conn, "connection", "it sent something else before its hello, and was closed",
			      ERROR_PROTOCOL, 0, (uid_t)-1);
		conn_close(conn);
		return;
	}
	if (message->head.type == MESSAGE_COLLECTOR && message->collector.capture == 0)
		probe_answered(process, &message->collector);
	else
		capture_message(process, message, fd);
}

void registry_gone(struct process *process)
{
	struct server *server = process->server;
	probe_gone(process);
	targets_process_gone(process);
	capture_process_gone(process);
	put_in_catalogue(process, true);
	log_verbose("pid %d (%s) is gone", process->who.pid, process->who.name);
	if (process->previous)
		process->previous->next = process->next;
	else
		live_of(server)->processes = process->next;
	if (process->next)
		process->next->previous = process->previous;
	live_of(server)->process_count--;
	watch_stop(process->watch);
	status_forget(process->page);
	free(process);
}
