/* orphans.c - captures that an earlier daemon left as partial files: their agents come back and offer the segments, or
 * the captures are ended with the records that are in their files. Thread: the loop's (the scan: before it runs). No
 * locks. */
#include "orphans.h"
#include "process_stat.h"
#include "capture.h"
#include "ending.h"
#include "arming.h"
#include "messages.h"
#include "armed.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/core/connection.h"
#include "daemon/core/server.h"
#include "live.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/version.h"
#include "daemon/catalogue/captures.h"
#include "daemon/catalogue/recovery.h"
#include "daemon/catalogue/recovery_rows.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long an agent that is back may take to offer the segments that it announced: it may get no processor for a
 * while. */
#define OFFER_NS 10000000000ull
/* And how long to offer segments that it did not announce, before they are taken for lost. */
#define LATE_NS 1000000000ull

/* A partial file that nobody can continue is removed if nothing was recorded in it. Otherwise it holds somebody's data,
 * and stays. */
static void cannot_take_up(struct server *server, uint64_t number, struct store *store, uint64_t holds)
{
	char why[STORE_SENTENCE_BYTES + 64], reason[REASON_BYTES], path[RECOVERY_PATH_BYTES], journal[64];
	int schema = store_schema(store);
	if (schema == 0 || (schema == CAPTURE_SCHEMA_VERSION && !store_error(store) && holds == 0)) {
		log_line("%s: an earlier daemon ended before anything was recorded in it: removed", store_path(store));
		store_discard(store);
		return;
	}
	text_copy(why, sizeof why, *store_sentence(store) ? store_sentence(store) : "it does not say whose it is");
	store_close(store);
	if (schema > CAPTURE_SCHEMA_VERSION) {
		log_line("%s: %s; it is left alone", store_path(store), why);
		snprintf(reason, sizeof reason,
			 "a newer release of profd began it, and can end it: %.300s is left alone", store_path(store));
	} else if (recovery_put_aside(server, store_partial_name(store), why, path) == 0) {
		snprintf(reason, sizeof reason, "its half-written file is damaged; what is left of it is %.300s", path);
		snprintf(journal, sizeof journal, "%s-journal", store_partial_name(store));
		if (faccessat(server->folder, journal, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			recovery_put_aside(server, journal, "it belongs to that", path);
	} else {
		return;
	}
	catalogue_spoil(catalogue_of(server), number, reason);
}

static void take_up(struct server *server, uint64_t number)
{
	struct store *store = store_new(NULL);
	struct capture_facts facts = {0};
	if (!store)
		return;
	int error = store_open(store, server->folder, server->folder_path, number);
	if (!error)
		error = store_get_facts(store, &facts);
	uint64_t device = (uint64_t)store_get_int(store, "segment_device");
	uint64_t inode = (uint64_t)store_get_int(store, "segment_inode");
	struct handoff handoff;
	handoff_read(store, &handoff);
	bool begun = store_get_int(store, "base_monotonic") != 0;
	/* A trigger is written into the catalogue after its agents have been asked. */
	if (!error && facts.trigger >= live_of(server)->next_trigger && facts.trigger < INT64_MAX / 2)
		live_of(server)->next_trigger = facts.trigger + 1;
	if (error || facts.number != number) {
		cannot_take_up(server, number, store, facts.number);
		store_free(store);
		return;
	}
	store_free(store);
	user_name(facts.who.uid, facts.who.user, sizeof facts.who.user);
	facts.status = CAPTURE_FINISHING;
	struct capture *capture = capture_add(server, &facts);
	if (!capture)
		return;
	capture->state = STATE_ORPHAN;
	struct capture_facts row;
	capture->catalogued = catalogue_get(catalogue_of(server), number, &row) == 1;
	capture->segment_device = device;
	capture->segment_inode = inode;
	capture->begun = begun;
	capture->arm = handoff.arm;
	capture->handoff = handoff;
	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++) {
		capture->collectors[bit].wanted = handoff.arm.collectors >> bit & 1;
		if (handoff.collectors[bit].head.size)
			capture_told(capture, &handoff.collectors[bit]);
	}
	capture->kept_fd = manager_take(&server->manager, number);
	capture->kept = capture->kept_fd >= 0;
	log_line("capture %llu of pid %d was left by an earlier daemon; waiting for its agent",
		 (unsigned long long)number, facts.who.pid);
}

static bool has_file(void *context, uint64_t number)
{
	const struct server *server = context;
	return capture_find((struct server *)server, number) != NULL;
}

/* Visits each file whose name begins with a number; `suffix` is the rest of the name. */
static void each_file(struct server *server, void (*visit)(struct server *server, uint64_t number, const char *suffix))
{
	DIR *folder = opendir(server->folder_path);
	struct dirent *entry;
	while (folder && (entry = readdir(folder))) {
		char *end;
		unsigned long long number = strtoull(entry->d_name, &end, 10);
		if (end != entry->d_name && number && number <= INT64_MAX / 2)
			visit(server, number, end);
	}
	if (folder)
		closedir(folder);
}

static void complete(struct server *server, uint64_t number, const char *suffix)
{
	if (strcmp(suffix, ".armed") == 0 && armed_make_file(server->folder, server->folder_path, number))
		log_line("capture %llu was armed when an earlier daemon ended, and had no file yet",
			 (unsigned long long)number);
	struct store *store = strcmp(suffix, ".partial") == 0 ? store_new(NULL) : NULL;
	if (!store)
		return;
	int done = store_rename_whole(store, server->folder, server->folder_path, number);
	if (done > 0)
		log_line("capture %llu was finished when an earlier daemon ended; its file now has its final name",
			 (unsigned long long)number);
	else if (done < 0)
		log_line("capture %llu: its file cannot be renamed: %s", (unsigned long long)number,
			 store_sentence(store));
	store_free(store);
}

void orphans_complete(struct server *server)
{
	each_file(server, complete);
}

static void visit(struct server *server, uint64_t number, const char *suffix)
{
	if (number >= live_of(server)->next_capture)
		live_of(server)->next_capture = number + 1;
	if (strcmp(suffix, ".partial") == 0)
		take_up(server, number);
}

void orphans_scan(struct server *server)
{
	each_file(server, visit);
	manager_release(&server->manager);
	catalogue_close_lost(catalogue_of(server), has_file, server);
	live_of(server)->orphans_until = clock_monotonic() + LIMIT_ORPHAN_SECONDS * 1000000000ull;
}

void capture_hand_off(struct capture *capture)
{
	struct server *server = capture->server;
	if (!capture->kept)
		capture->kept = manager_keep(&server->manager, capture->facts.number, capture->ingest->segment.fd);
	capture->state = STATE_HANDOFF;
	if (!capture->noting)
		memcpy(capture->ingest->handoff.collectors, capture->handoff.collectors,
		       sizeof capture->handoff.collectors);
	atomic_store_explicit(&capture->ingest->wish, INGEST_HAND_OFF, memory_order_release);
	capture_submit(capture);
	if (capture->submitted)
		work_kick(&live_of(server)->ingest_pool, &capture->ingest->work);
}

/* If the schedule is known, its trigger is made again, so that further cycles follow. */
static void resume(struct capture *capture)
{
	const struct handoff *handoff = &capture->handoff;
	capture->time_limit = handoff->time_limit ? handoff->time_limit : LIMIT_ORPHAN_SECONDS * 1000000000ull;
	capture->deadline = handoff->deadline ? handoff->deadline : clock_monotonic() + capture->time_limit;
	if (!handoff->arm.head.size)
		return;
	capture->trigger = trigger_resume(capture->server, capture->facts.trigger, capture->facts.who.uid, handoff,
					  capture->facts.label);
	if (capture->trigger)
		capture->trigger->running++;
}

/* Goes on with a segment, if it is the one that the file names. fd stays the caller's. */
static int adopt(struct capture *capture, int fd, struct quota_user *user)
{
	struct server *server = capture->server;
	uint64_t device, inode;
	if (segment_identity(fd, &device, &inode) || device != capture->segment_device ||
	    inode != capture->segment_inode)
		return -EPERM;
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (own < 0)
		return -errno;
	struct segment segment;
	int error = segment_adopt(&segment, own);
	if (error) {
		close(own);
		return error;
	}
	capture->ingest =
		ingest_new(&capture->facts, &segment, true, server->folder, server->folder_path, &user->working);
	if (!capture->ingest) {
		segment_deinit(&segment);
		return -ENOMEM;
	}
	capture_charge(capture, user, segment.map_bytes);
	if (capture->kept_fd >= 0)
		close(capture->kept_fd);
	capture->kept_fd = -1;
	return 0;
}

int orphan_offered(struct process *process, const struct message_offer *offer, int fd)
{
	struct server *server = process->server;
	struct capture *capture = capture_find(server, offer->capture);
	log_verbose("pid %d offers capture %llu", process->who.pid, (unsigned long long)offer->capture);
	if (fd < 0 || !capture || capture->state != STATE_ORPHAN || capture->facts.who.uid != process->who.uid ||
	    capture->facts.who.pid != process->who.pid || capture->facts.who.start_time != process->who.start_time)
		return -ENOENT;
	int error = adopt(capture, fd, process->conn->user);
	if (error)
		return error;
	log_line("capture %llu: pid %d has offered its segment", (unsigned long long)offer->capture, process->who.pid);
	capture_set_process(capture, process);
	capture->state = STATE_RUNNING;
	resume(capture);
	capture_submit(capture);
	enum cancel_reason wish = capture->cancel;
	capture->cancel = REASON_NONE;
	if (wish)
		capture_cancel(capture, wish);
	return 0;
}

static struct process *owner_of(const struct capture *capture)
{
	for (struct process *process = live_of(capture->server)->processes; process; process = process->next)
		if (process->who.pid == capture->facts.who.pid &&
		    process->who.start_time == capture->facts.who.start_time)
			return process;
	return NULL;
}

/* Opens the capture's file, and the segment if the service manager has kept it. The memory counts for the capture's
 * owner. False: there is no memory. */
static bool take_file(struct capture *capture, bool with_segment)
{
	struct server *server = capture->server;
	struct quota_user *user = quota_user(server, capture->facts.who.uid);
	if (!user)
		return false;
	if (with_segment && capture->kept_fd >= 0 && adopt(capture, capture->kept_fd, user) == 0) {
		quota_user_unref(user);
		return true;
	}
	capture->ingest = ingest_new(&capture->facts, NULL, true, server->folder, server->folder_path, &user->working);
	if (capture->ingest)
		capture_charge(capture, user, 0);
	quota_user_unref(user);
	return capture->ingest != NULL;
}

void orphan_forget(struct capture *capture)
{
	if (!take_file(capture, false))
		return;
	capture->forgotten = true;
	if (capture->catalogued) {
		capture->facts.status = CAPTURE_INCOMPLETE;
		capture->facts.reason_code = REASON_DAEMON;
		text_copy(capture->facts.reason, sizeof capture->facts.reason,
			  "the daemon restarted before it began; its cycle has begun anew as another capture");
	}
	capture_drop(capture);
}

/* The agent has been back for a while and has not offered the segment of a further cycle of which nothing is recorded:
 * that cycle has never begun. If the agent does nothing else, it waits between two cycles, and gets another segment. */
static bool begin_anew(struct capture *capture, struct process *process)
{
	struct server *server = capture->server;
	bool last = !server->stopping && !capture->cancel && !capture_of_process(process);
	if (!capture->facts.cycle || capture->begun || !capture->handoff.arm.head.size)
		return false;
	for (const struct capture *other = live_of(server)->captures; other; other = other->next)
		last &= other == capture || other->forgotten || other->facts.trigger != capture->facts.trigger ||
			other->facts.who.pid != capture->facts.who.pid || other->facts.cycle < capture->facts.cycle;
	struct message_arm arm = capture->handoff.arm;
	enum error error;
	char sentence[SENTENCE_BYTES];
	if (last && !capture->trigger)
		resume(capture);
	/* The new capture is made first: the forgotten one must not be the last of its schedule. */
	if (last && capture->trigger && !capture_new(process, capture->trigger, &arm, &error, sentence))
		log_line("pid %d: cycle %llu cannot be recorded: %s", process->who.pid, (unsigned long long)arm.cycle,
			 sentence);
	orphan_forget(capture);
	return true;
}

/* Its agent will not come back, and all that it has written is in the segment. */
static void end_kept(struct capture *capture, bool gone)
{
	const struct segment_header *header = capture->ingest->segment.header;
	uint32_t steps = atomic_load(&header->steps_recorded);
	bool whole = atomic_load(&header->phase) == SEGMENT_DONE && !capture->arm.duration &&
		     steps >= capture->facts.steps_wanted;
	log_line("capture %llu: its segment was kept by the service manager",
		 (unsigned long long)capture->facts.number);
	capture->facts.status = whole ? CAPTURE_COMPLETE : CAPTURE_INCOMPLETE;
	if (!whole) {
		capture->facts.reason_code = gone ? REASON_DIED : REASON_DAEMON;
		snprintf(capture->facts.reason, sizeof capture->facts.reason, "%s after %u of %llu steps",
			 gone ? "the process ended while no daemon ran"
			      : "the daemon restarted, and the agent did not come back to it,",
			 steps, (unsigned long long)capture->facts.steps_wanted);
	}
	capture->state = STATE_RUNNING;
	capture_submit(capture);
	capture_end(capture);
}

void orphan_tick(struct capture *capture, uint64_t now)
{
	struct server *server = capture->server;
	if (server->stopping)
		return; /* it is left to the next daemon */
	bool gone = process_start_time(capture->facts.who.pid) != capture->facts.who.start_time;
	struct process *process = gone ? NULL : owner_of(capture);
	bool late = process && clock_realtime() > process->registered_at + OFFER_NS;
	if (process && (late || process->offers_due == 0) && begin_anew(capture, process))
		return;
	bool back =
		late || (process && process->offers_due == 0 && clock_realtime() > process->registered_at + LATE_NS);
	if (!gone && !back && now < live_of(server)->orphans_until)
		return;
	if (!take_file(capture, true))
		return; /* the next tick tries again */
	if (capture->ingest->has_segment) {
		end_kept(capture, gone);
		return;
	}
	capture->facts.status = CAPTURE_INCOMPLETE;
	capture->facts.reason_code = REASON_DAEMON;
	text_copy(
		capture->facts.reason, sizeof capture->facts.reason,
		gone   ? "the daemon restarted and the process ended; what its segment still held is lost, how much is "
			 "not known"
		: back ? "the daemon restarted and the agent came back without the capture; what was not stored yet is "
			 "lost, how much is not known"
		       : "the daemon restarted; what the segment still held is lost, how much is not known");
	capture->state = STATE_RUNNING;
	capture_submit(capture);
	capture_end(capture);
}

void orphans_offered(struct process *process)
{
	if (process->offers_due)
		return;
	uint64_t now = clock_monotonic();
	for (struct capture *capture = live_of(process->server)->captures, *next; capture; capture = next) {
		next = capture->next;
		if (capture->state == STATE_ORPHAN && capture->facts.who.pid == process->who.pid)
			orphan_tick(capture, now);
	}
}
