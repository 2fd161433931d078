/* live.c - see live.h. Thread: the loop's; trim_run has one of the finish pool. No locks. */
#include "live.h"
#include "orphans.h"
#include "capture.h"
#include "daemon/core/rooms.h"
#include "daemon/core/server.h"
#include "ingest.h"
#include "probe.h"
#include "trigger.h"

#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

struct live *live_of(const struct server *server)
{
	return room_state(server, ROOM_LIVE);
}

int live_start(struct server *server)
{
	struct live *live = live_of(server);
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned ingest = cores < 2 ? 2 : cores > WORK_THREADS_MAX ? WORK_THREADS_MAX : (unsigned)cores;
	unsigned finish = cores < 4 ? 2 : 4;
	/* A client waits for a note: this pool has the loop's priority. */
	int error = work_pool_init(&live->note_pool, 1, 0, &server->outbox);
	if (!error)
		error = work_pool_init(&live->ingest_pool, ingest, WORK_NICE, &server->outbox);
	if (!error)
		error = work_pool_init(&live->finish_pool, finish, WORK_NICE, &server->outbox);
	if (!error) {
		work_pool_may_grow(&live->ingest_pool);
		work_pool_may_grow(&live->finish_pool);
	}
	return error;
}

void live_tick(struct server *server, uint64_t now)
{
	struct live *live = live_of(server);
	for (struct capture *capture = live->captures, *next; capture; capture = next) {
		next = capture->next;
		capture_tick(capture, now);
	}
	for (struct trigger *trigger = live->triggers, *next; trigger; trigger = next) {
		next = trigger->next;
		trigger_tick(trigger, now);
	}
	probes_tick(server, now);
}

/* Does one of the captures need work now? */
static bool is_active(const struct live *live)
{
	for (const struct capture *capture = live->captures; capture; capture = capture->next)
		if (capture->state != STATE_ORPHAN)
			return true;
	return false;
}

enum pace live_pace(const struct server *server)
{
	const struct live *live = live_of(server);
	if (live->probes || is_active(live))
		return PACE_FAST;
	return live->triggers || live->captures ? PACE_SLOW : PACE_NONE;
}

void live_stopping(struct server *server)
{
	struct live *live = live_of(server);
	if (server->handing_off)
		return;
	for (struct trigger *trigger = live->triggers; trigger; trigger = trigger->next)
		trigger->wait_until = 0;
	for (struct capture *capture = live->captures; capture; capture = capture->next)
		if (capture_is_running(capture))
			capture_cancel(capture, REASON_DAEMON);
}

bool live_has_work(struct server *server)
{
	struct live *live = live_of(server);
	for (struct capture *capture = live->captures; capture && server->handing_off; capture = capture->next)
		if (capture->state == STATE_RUNNING)
			capture_hand_off(capture);
	return is_active(live);
}

static void turn_has_come(struct work *work)
{
	struct live *live = (struct live *)((char *)work - offsetof(struct live, arm_more));
	live->arming = false;
	trigger_arm_more(live->server);
}

void live_arm_more(struct server *server)
{
	struct live *live = live_of(server);
	if (live->arming)
		return;
	live->arming = true;
	live->arm_more = (struct work){.done = turn_has_come};
	work_outbox_put(&server->outbox, &live->arm_more);
}

/* --- the heap --- */

/* With this many captures at a time, memory is given back while others still go on: when a quarter of them is left. */
#define TRIM_MANY 16u

/* The memory of many captures is spread all over the heap. When they are gone it is given back to the system. */
static int64_t trim_run(struct work *work)
{
	(void)work;
	malloc_trim(0);
	return WORK_DONE;
}

static void trimmed(struct work *work)
{
	struct live *live = (struct live *)((char *)work - offsetof(struct live, trim));
	live->trimming = false;
	/* Captures may have gone meanwhile. */
	live_trim(live->server);
}

void live_trim(struct server *server)
{
	struct live *live = live_of(server);
	unsigned peak = live->trim_peak, left = live->capture_count;
	if (peak == 0 || (left && (peak < TRIM_MANY || left > peak / 4)) || live->trimming || server->closing)
		return;
	live->trimming = true;
	live->trim_peak = left;
	live->trim = (struct work){.run = trim_run, .done = trimmed};
	work_submit(&live->finish_pool, &live->trim);
}

/* --- the end --- */

void live_abandon(struct server *server)
{
	for (struct capture *capture = live_of(server)->captures; capture; capture = capture->next) {
		capture_set_process(capture, NULL);
		capture->trigger = NULL;
	}
}

bool live_is_finishing(struct server *server)
{
	return server->handing_off && work_pool_works(&live_of(server)->finish_pool);
}

void live_end_ingest(struct server *server)
{
	work_pool_deinit(&live_of(server)->note_pool);
	work_pool_deinit(&live_of(server)->ingest_pool);
}

void live_end_finish(struct server *server)
{
	work_pool_deinit(&live_of(server)->finish_pool);
}

void live_deinit(struct server *server)
{
	struct live *live = live_of(server);
	while (live->triggers)
		trigger_free(live->triggers);
	while (live->captures) {
		struct capture *capture = live->captures;
		live->captures = capture->next;
		ingest_free(capture->ingest);
		free(capture);
	}
	free(live->by_number);
}
