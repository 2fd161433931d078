/* retention.c - see retention.h. Thread: the loop's; look_run on the catalogue's. No locks. */
#include "retention.h"
#include "proto/base/clock.h"
#include "audit.h"
#include "proto/base/log.h"
#include "catalogue.h"
#include "daemon/core/connection.h"
#include "daemon/core/server.h"
#include "deleted.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* After so long, or so many captures, other work that waits for the catalogue has its turn. */
#define LOOK_NS 100000000ull
#define LOOK_EVICTIONS 256
/* How long a follower may take to open the capture that it was told of. */
#define HOLD_NS 60000000000ull
/* Captures under way ask for a look at most so often. */
#define PRESS_NS 1000000000ull
/* This part of the floor is freed beyond what is missing. */
#define MARGIN_PART 16
#define RETRY_MS 5000
#define HELD_MS 1000
/* No sleep is longer, as CLOCK_REALTIME may be set meanwhile. */
#define SLEEP_MS_MAX 3600000ull

struct retention_hold {
	struct retention_hold *next;
	uint64_t number;
	pid_t pid;
	uint64_t until;	   /* CLOCK_MONOTONIC ns; 0 = the connection follows still */
	struct conn *conn; /* a reference */
};

struct retention_deferred {
	struct retention_deferred *next;
	struct conn *conn; /* a reference */
	retention_resume *resume;
	size_t n;
	char packet[];
};

struct gone {
	uint64_t number, bytes;
	uid_t uid;
	enum eviction_reason reason;
	char text[160];
};

struct retention_work {
	struct work work;
	struct server *server;
	struct eviction_limits limits;
	uint64_t deleted_lines;
	bool exceeded; /* a budget is exceeded, as usage.h has it: rows are needed */
	uint64_t *held;
	size_t held_count;
	/* The result. */
	struct eviction_rest rest;
	struct gone gone[LOOK_EVICTIONS];
	size_t gone_count;
	bool failed;
	bool reserved;	/* the room that the next start on a full disk needs is reserved */
	bool exhausted; /* afterwards the disk is below its floor, and nothing more can be deleted */
	struct space space;
};

struct retention *retention_of(const struct server *server)
{
	return room_state(server, ROOM_RETENTION);
}

/* --- on the catalogue's thread --- */

static void say_why(const struct retention_work *look, const struct eviction *eviction, char *to, size_t to_bytes)
{
	char had[SPACE_TEXT_BYTES], limit[SPACE_TEXT_BYTES];
	const struct eviction_limits *limits = &look->limits;
	switch (eviction->reason) {
	case EVICTION_AGE:
		snprintf(to, to_bytes, "it was finished %.1f days ago, which is more than store_age",
			 (double)eviction->had / 86400e9);
		break;
	case EVICTION_BYTES_USER:
		snprintf(to, to_bytes, "its user's captures took %s, store_bytes_user is %s",
			 space_text(eviction->had, had), space_text(limits->bytes_user, limit));
		break;
	case EVICTION_CAPTURES_USER:
		snprintf(to, to_bytes, "its user had %" PRIu64 " captures, store_captures_user is %" PRIu64,
			 eviction->had, limits->captures_user);
		break;
	case EVICTION_BYTES:
		snprintf(to, to_bytes, "all captures took %s, store_bytes is %s, and its user had most",
			 space_text(eviction->had, had), space_text(limits->bytes, limit));
		break;
	case EVICTION_CAPTURES:
		snprintf(to, to_bytes,
			 "there were %" PRIu64 " captures, store_captures is %" PRIu64 ", and its user had most",
			 eviction->had, limits->captures);
		break;
	case EVICTION_FREE_SPACE:
		snprintf(to, to_bytes,
			 "less than free_space was free on the file system, %s were still to be freed, and its user "
			 "had most",
			 space_text(eviction->had, had));
		break;
	}
}

static void evict(struct retention_work *look, const struct kept *rows, const struct eviction *evictions, size_t count)
{
	struct catalogue *catalogue = catalogue_of(look->server);
	uint64_t began = clock_monotonic();
	for (size_t i = 0; i < count; i++) {
		const struct kept *row = &rows[evictions[i].index];
		struct gone *gone = &look->gone[look->gone_count];
		if (clock_monotonic() - began > LOOK_NS) {
			look->rest.more = true;
			break;
		}
		*gone = (struct gone){row->number, row->bytes, row->uid, evictions[i].reason, ""};
		say_why(look, &evictions[i], gone->text, sizeof gone->text);
		if (catalogue_remove(catalogue, row->number, NULL, gone->text)) {
			look->failed = true;
			break;
		}
		look->gone_count++;
	}
}

static bool is_held(const struct retention_work *look, uint64_t number)
{
	for (size_t i = 0; i < look->held_count; i++)
		if (look->held[i] == number)
			return true;
	return false;
}

static void choose_and_remove(struct retention_work *look)
{
	struct kept *rows = NULL;
	size_t count = 0;
	struct eviction evictions[LOOK_EVICTIONS];
	if (catalogue_kept(catalogue_of(look->server), &rows, &count)) {
		look->failed = true;
		return;
	}
	for (size_t i = 0; i < count; i++)
		rows[i].held = is_held(look, rows[i].number);
	count = eviction_choose(rows, count, &look->limits, evictions, LOOK_EVICTIONS, &look->rest);
	evict(look, rows, evictions, count);
	free(rows);
}

static int64_t look_run(struct work *work)
{
	struct retention_work *look = (struct retention_work *)work;
	struct server *server = look->server;
	struct eviction_limits *limits = &look->limits;
	limits->now = clock_realtime();
	space_look(server->folder, &retention_of(server)->floor, &look->space);
	if (space_missing(&look->space))
		limits->missing = space_missing(&look->space) + look->space.floor / MARGIN_PART;
	uint64_t oldest = limits->age ? catalogue_oldest(catalogue_of(server)) : 0;
	bool old = oldest && oldest < limits->now && limits->now - oldest >= limits->age;
	if (oldest && !old)
		look->rest.next_at = limits->age > UINT64_MAX - oldest ? UINT64_MAX : oldest + limits->age;
	if (look->exceeded || limits->missing || old)
		choose_and_remove(look);
	catalogue_trim_deleted(catalogue_of(server), look->deleted_lines);
	/* Tried at each look, until there was room for it. */
	if (!look->reserved)
		look->reserved = space_reserve_keep(server->directory) != -ENOSPC;
	if (look->gone_count)
		space_look(server->folder, &retention_of(server)->floor, &look->space);
	look->exhausted = space_missing(&look->space) && (look->failed || (look->rest.missing && !look->rest.more));
	return WORK_DONE;
}

/* --- on the loop's --- */

static void drop_hold(struct retention_hold **at)
{
	struct retention_hold *hold = *at;
	*at = hold->next;
	conn_unref(hold->conn);
	free(hold);
}

static void forget_holds(struct retention *retention, uint64_t now)
{
	for (struct retention_hold **at = &retention->holds; *at;) {
		struct retention_hold *hold = *at;
		if (!hold->conn->follows && !hold->until)
			hold->until = now + HOLD_NS;
		if (hold->conn->closed || (hold->until && now > hold->until))
			drop_hold(at);
		else
			at = &hold->next;
	}
}

void retention_hold(struct server *server, uint64_t number, pid_t pid, struct conn *conn)
{
	for (struct retention_hold **at = &retention_of(server)->holds; *at;) {
		if ((*at)->conn == conn && (*at)->pid == pid)
			drop_hold(at);
		else
			at = &(*at)->next;
	}
	struct retention_hold *hold = calloc(1, sizeof *hold);
	if (!hold)
		return;
	*hold = (struct retention_hold){retention_of(server)->holds, number, pid, 0, conn_ref(conn)};
	retention_of(server)->holds = hold;
}

static void timer_ready(uv_timer_t *timer)
{
	retention_look(timer->data);
}

static void sleep_until_next(struct server *server, const struct retention_work *look, bool failed)
{
	uint64_t wait = 0, now = clock_realtime();
	if (look->rest.next_at)
		wait = look->rest.next_at > now ? (look->rest.next_at - now) / 1000000u + 1 : 1;
	if (wait > SLEEP_MS_MAX)
		wait = SLEEP_MS_MAX;
	if (failed)
		wait = RETRY_MS;
	else if (look->rest.held && (wait == 0 || wait > HELD_MS))
		wait = HELD_MS;
	if (wait && !server->stopping)
		uv_timer_start(&retention_of(server)->timer, timer_ready, wait, 0);
	else
		uv_timer_stop(&retention_of(server)->timer);
}

static void serve_deferred(struct server *server)
{
	struct retention_deferred *list = retention_of(server)->deferred;
	retention_of(server)->deferred = NULL;
	while (list) {
		struct retention_deferred *next = list->next;
		if (!list->conn->closed && !server->closing)
			list->resume(list->conn, list->packet, list->n);
		conn_unref(list->conn);
		free(list);
		list = next;
	}
}

static void tell_gone(struct server *server, const struct retention_work *look)
{
	struct ucred self = {.pid = getpid(), .uid = getuid(), .gid = getgid()};
	for (size_t i = 0; i < look->gone_count; i++) {
		const struct gone *gone = &look->gone[i];
		char id[ID_BYTES];
		capture_id_text(gone->number, server->user, id);
		log_line("capture %s of uid %u deleted: %s", id, gone->uid, gone->text);
		struct audit_entry entry = {.by = self,
					    .trusted = true,
					    .action = "delete",
					    .outcome = eviction_word(gone->reason),
					    .subject = id,
					    .target_uid = gone->uid};
		audit_put(server, &entry);
		usage_remove(usage_of(server), gone->uid, 1, gone->bytes);
		counters_deleted(&server->counters, eviction_word(gone->reason), 1, gone->bytes);
	}
}

static void looked(struct work *work)
{
	struct retention_work *look = (struct retention_work *)work;
	struct server *server = look->server;
	struct retention *retention = retention_of(server);
	bool failed = look->failed || work->failed;
	retention->running = NULL;
	retention->reserved = look->reserved;
	retention->exhausted = look->exhausted;
	/* If the transaction failed, the rows of deleted files are still there. The next look finds them. */
	if (!work->failed)
		tell_gone(server, look);
	if (!server->closing) {
		bool more = look->rest.more && !failed && look->gone_count;
		if (!more && retention->pressed) {
			retention->pressed = false;
			retention->out_of_space(server, look->exhausted ? &look->space : NULL);
		}
		sleep_until_next(server, look, failed);
		if (retention->again || more)
			retention_look(server);
		if (!more)
			serve_deferred(server);
	}
	free(look->held);
	free(look);
}

static bool over(uint64_t value, uint64_t limit)
{
	return limit && value > limit;
}

static bool exceeded(const struct server *server)
{
	const struct config *config = &server->config;
	struct usage_owner all = usage_sum(usage_of(server), true, 0);
	bool any = over(all.bytes, config->store_bytes) || over(all.captures, config->store_captures);
	for (size_t i = 0; i < usage_of(server)->count && !any; i++) {
		const struct usage_owner *owner = &usage_of(server)->owners[i];
		any = over(owner->bytes, config->store_bytes_user) ||
		      over(owner->captures, config->store_captures_user);
	}
	return any;
}

static void list_holds(const struct retention *retention, struct retention_work *look)
{
	size_t count = 0;
	for (const struct retention_hold *hold = retention->holds; hold; hold = hold->next)
		count++;
	look->held = count ? calloc(count, sizeof *look->held) : NULL;
	for (const struct retention_hold *hold = retention->holds; hold && look->held; hold = hold->next)
		look->held[look->held_count++] = hold->number;
}

void retention_look(struct server *server)
{
	struct retention *retention = retention_of(server);
	const struct config *config = &server->config;
	if (server->closing)
		return;
	atomic_store(&retention->floor.bytes, config->free_space);
	atomic_store(&retention->floor.percent, (uint32_t)config->free_space_percent);
	retention->again = retention->running != NULL;
	if (retention->again)
		return;
	struct retention_work *look = calloc(1, sizeof *look);
	if (!look)
		return; /* the next stored capture brings another */
	forget_holds(retention, clock_monotonic());
	list_holds(retention, look);
	look->work = (struct work){.run = look_run, .done = looked};
	look->server = server;
	look->limits = (struct eviction_limits){.bytes = config->store_bytes,
						.bytes_user = config->store_bytes_user,
						.captures = config->store_captures,
						.captures_user = config->store_captures_user,
						.age = config->store_age};
	look->deleted_lines = config->deleted_lines;
	look->exceeded = exceeded(server);
	look->reserved = retention->reserved;
	retention->running = look;
	if (catalogue_submit(catalogue_of(server), &look->work))
		return;
	retention->running = NULL;
	free(look->held);
	free(look);
	uv_timer_start(&retention->timer, timer_ready, RETRY_MS, 0);
}

void retention_press(struct server *server)
{
	uint64_t now = clock_monotonic();
	if (retention_of(server)->pressed_at && now < retention_of(server)->pressed_at + PRESS_NS)
		return;
	retention_of(server)->pressed_at = now;
	retention_of(server)->pressed = true;
	retention_look(server);
}

static bool may_delete(const struct server *server)
{
	struct usage_owner all = usage_sum(usage_of(server), true, 0);
	return all.bytes > all.pinned_bytes;
}

bool retention_defers(struct conn *conn, retention_resume *resume, const char *packet, size_t n)
{
	struct server *server = conn->server;
	struct space space;
	space_look(server->folder, &retention_of(server)->floor, &space);
	/* If nothing can be deleted, waiting does not help. */
	if (!space_missing(&space) || !may_delete(server))
		return false;
	struct retention_deferred *deferred = calloc(1, sizeof *deferred + n + 1);
	if (!deferred)
		return false;
	deferred->conn = conn_ref(conn);
	deferred->resume = resume;
	deferred->n = n;
	memcpy(deferred->packet, packet, n);
	deferred->next = retention_of(server)->deferred;
	retention_of(server)->deferred = deferred;
	retention_look(server);
	/* If no look could be begun, nobody would serve the request later. */
	if (!retention_of(server)->running)
		serve_deferred(server);
	return true;
}

/* Is a budget taken by pinned captures alone? */
static bool pinned_out(uint64_t pinned, uint64_t limit)
{
	return limit && pinned >= limit;
}

bool retention_allows(const struct server *server, uid_t uid, char *sentence, size_t sentence_bytes)
{
	const struct config *config = &server->config;
	struct usage_owner own = usage_sum(usage_of(server), false, uid), all = usage_sum(usage_of(server), true, 0);
	struct space space;
	char pinned[SPACE_TEXT_BYTES], limit[SPACE_TEXT_BYTES];
	static const char advice[] =
		"a capture recorded now would be deleted at once; `profd unpin` some, or `profd rm` them";
	if (pinned_out(own.pinned_bytes, config->store_bytes_user)) {
		snprintf(sentence, sentence_bytes,
			 "pinned captures of that user take %s of the %s that one user may have: %s",
			 space_text(own.pinned_bytes, pinned), space_text(config->store_bytes_user, limit), advice);
		return false;
	}
	if (pinned_out(own.pinned_captures, config->store_captures_user)) {
		snprintf(sentence, sentence_bytes,
			 "that user has pinned %" PRIu64 " captures of the %" PRIu64 " that one user may have: %s",
			 own.pinned_captures, config->store_captures_user, advice);
		return false;
	}
	if (pinned_out(all.pinned_bytes, config->store_bytes) ||
	    pinned_out(all.pinned_captures, config->store_captures)) {
		snprintf(sentence, sentence_bytes, "pinned captures take the whole budget of the store (%s): %s",
			 space_text(all.pinned_bytes, pinned), advice);
		return false;
	}
	space_look(server->folder, &retention_of(server)->floor, &space);
	if (!space_missing(&space) || (may_delete(server) && !retention_of(server)->exhausted))
		return true;
	space_low_sentence(&space, server->folder_path, sentence, sentence_bytes);
	return false;
}

int retention_init(struct server *server, void (*out_of_space)(struct server *server, const struct space *space))
{
	retention_of(server)->out_of_space = out_of_space;
	int error = uv_timer_init(&server->loop, &retention_of(server)->timer);
	if (error)
		return error;
	retention_of(server)->timer.data = server;
	retention_look(server);
	return 0;
}

void retention_deinit(struct server *server)
{
	while (retention_of(server)->holds)
		drop_hold(&retention_of(server)->holds);
	serve_deferred(server);
	uv_close((uv_handle_t *)&retention_of(server)->timer, NULL);
}
