/* run.c - see run.h. Thread: the main one, which is the loop's. No locks. */
#include "run.h"
#include "daemon/capture/orphans.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/space.h"
#include "daemon/capture/agents.h"
#include "daemon/capture/capture.h"
#include "daemon/capture/live.h"
#include "daemon/capture/numbers.h"
#include "daemon/catalogue/audit.h"
#include "daemon/catalogue/captures.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/catalogue/history.h"
#include "daemon/catalogue/open.h"
#include "daemon/catalogue/recovery.h"
#include "daemon/catalogue/retention.h"
#include "daemon/catalogue/usage.h"
#include "daemon/core/calls.h"
#include "daemon/core/connection.h"
#include "daemon/core/namespaces.h"
#include "daemon/core/server.h"
#include "daemon/metrics/metrics.h"
#include "daemon/ops/clients.h"
#include "daemon/setup/places.h"
#include "daemon/setup/reload.h"
#include "daemon/setup/service.h"
#include "proto/version.h"
#include "store/store.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct daemon {
	struct server server;
	struct catalogue catalogue;
	struct usage usage;
	struct retention retention;
	struct live live;
	struct metrics metrics;
	struct service service;
};

/* --- what core calls --- */

static void closed(struct conn *conn)
{
	if (conn->kind == CONN_AGENT)
		agent_closed(conn);
	else
		client_closed(conn);
}

static void refused(struct server *server, const struct ucred *peer, struct quota_user *user, enum error error,
		    const char *why)
{
	struct audit_entry entry = {.by = *peer,
				    .user = user,
				    .refused = true,
				    .action = "connection",
				    .outcome = error_word(error),
				    .subject = why,
				    .target_uid = (uid_t)-1};
	audit_put(server, &entry);
}

static void tick(struct server *server, uint64_t now)
{
	live_tick(server, now);
	audit_tick(server, now);
}

static enum pace pace(const struct server *server)
{
	enum pace wanted = live_pace(server);
	return wanted == PACE_NONE && audit_waits(server) ? PACE_SLOW : wanted;
}

static void stopping(struct server *server, uint64_t most_ns)
{
	service_stopping(server, most_ns);
	live_stopping(server);
}

static const struct calls calls = {.agent_packet = agent_packet,
				   .client_packet = client_packet,
				   .answered = client_answered,
				   .closed = closed,
				   .refused = refused,
				   .tick = tick,
				   .pace = pace,
				   .changed = service_changed,
				   .reload = reload,
				   .stopping = stopping,
				   .has_work = live_has_work};

/* --- the beginning --- */

static void raise_descriptor_limit(void)
{
	/* A segment and a status page for each process, a descriptor for each connection and file. */
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void count_owner(void *context, const struct usage_owner *owner)
{
	struct server *server = context;
	usage_add(usage_of(server), owner->uid, owner->captures, owner->bytes);
	usage_pin(usage_of(server), owner->uid, owner->pinned_captures, owner->pinned_bytes, true);
}

/* Takes the folder and its lock, opens the catalogue, and takes up what an earlier daemon has left. Returns the lock's
 * descriptor, or a negative number; the log says why then. */
static int prepare(struct server *server, const char *directory, const char *socket_path)
{
	char sentence[PLACES_SENTENCE_BYTES];
	umask(server->user ? 077 : 027);
	(void)signal(SIGPIPE, SIG_IGN);
	raise_descriptor_limit();
	server->pid_namespace = namespace_own(sentence, sizeof sentence);
	int lock = server->pid_namespace ? places_take(server, directory, socket_path, sentence) : -1;
	if (lock < 0) {
		log_line("%s", sentence);
		return -1;
	}
	store_temporary_folder(server->folder_path);
	service_starting(server, "Opening the catalogue");
	space_reserve_take(server->directory);
	struct catalogue *catalogue = catalogue_of(server);
	if (catalogue_open(catalogue, server->directory, server->folder, server->folder_path, sentence,
			   sizeof sentence)) {
		log_line("%s", sentence);
		return -1;
	}
	const struct group *group = getgrnam("profd");
	server->group = !server->user && group ? group->gr_gid : (gid_t)-1;
	server->started_at = clock_realtime();
	struct live *live = live_of(server);
	live->server = server;
	live->next_serial = 1;
	orphans_complete(server);
	uint64_t last = catalogue_last_capture(catalogue), found = recovery_run(server);
	live->next_capture = (last > found ? last : found) + 1;
	live->next_trigger = catalogue_last_trigger(catalogue) + 1;
	orphans_scan(server);
	numbers_begin(server);
	catalogue_each_owner(catalogue, count_owner, server);
	return lock;
}

static int start(struct server *server)
{
	int error = server_init(server);
	if (!error)
		error = live_start(server);
	if (!error)
		error = catalogue_start(catalogue_of(server), &server->outbox);
	if (!error)
		error = retention_init(server, captures_out_of_space);
	if (error)
		return error;
	server_listen(server);
	metrics_start(server);
	service_ready(server);
	return 0;
}

/* --- the end --- */

static void end(struct server *server)
{
	server->closing = true;
	live_abandon(server);
	metrics_stop(server);
	server_disconnect(server);
	/* Writes into the audit log what was left out of it until now. */
	audit_tick(server, UINT64_MAX);
	live_end_ingest(server);
	numbers_end(server);
	if (live_is_finishing(server)) {
		/* All its rows are in its file, and the next daemon puts them into order again. A restart does not wait
		 * for that. */
		log_line("ended while a capture is put into order; the next daemon does that anew");
		catalogue_deinit(catalogue_of(server));
		metrics_deinit(server);
		_exit(0);
	}
	live_end_finish(server);
	server_end_closing(server);
	work_outbox_run(&server->outbox);
	catalogue_deinit(catalogue_of(server));
	metrics_deinit(server);
	work_outbox_run(&server->outbox);
	retention_deinit(server);
	service_deinit(server);
	server_close_handles(server);
	live_deinit(server);
	server_deinit(server);
	usage_deinit(usage_of(server));
}

static int serve(struct server *server, const struct run_options *options)
{
	char sentence[PLACES_SENTENCE_BYTES], handed_path[MANAGER_SENTENCE_BYTES];
	int handed = manager_init(&server->manager, handed_path, sentence);
	if (handed < 0 && handed != -ENOENT) {
		log_line("%s", sentence);
		return 1;
	}
	int lock = prepare(server, options->directory, handed >= 0 ? handed_path : options->socket_path);
	if (lock < 0)
		return 1;
	server->listen_fd = handed >= 0 ? handed : places_listen(server, sentence);
	if (server->listen_fd < 0) {
		log_line("%s", sentence);
		return 1;
	}
	int error = start(server);
	if (error) {
		log_line("cannot start: %s", strerror(-error));
		return 1;
	}
	log_line("profd %s listens on %s, captures in %s", PROFD_VERSION, server->socket_path, server->directory);
	server_run(server);
	end(server);
	close(server->folder);
	close(lock);
	log_line("ended");
	return 0;
}

int run(const struct run_options *options, const struct config *config)
{
	struct daemon *daemon = calloc(1, sizeof *daemon);
	if (!daemon)
		return 1;
	struct server *server = &daemon->server;
	server->calls = &calls;
	server->rooms[ROOM_CATALOGUE] = &daemon->catalogue;
	server->rooms[ROOM_USAGE] = &daemon->usage;
	server->rooms[ROOM_RETENTION] = &daemon->retention;
	server->rooms[ROOM_LIVE] = &daemon->live;
	server->rooms[ROOM_METRICS] = &daemon->metrics;
	server->rooms[ROOM_SERVICE] = &daemon->service;
	server->user = options->user;
	server->config = *config;
	server->config_file = options->config_file;
	server->folder = -1;
	server->verbose = options->verbose;
	log_is_verbose = options->verbose || config->verbose;
	int status = serve(server, options);
	/* Threads that hang may still use the daemon's memory, so it is not freed. */
	if (server->closing_hangs)
		_exit(status);
	free(daemon);
	return status;
}
