/* capture.c - see capture.h. Thread: the loop's. No locks. */
#include "capture.h"
#include "arming.h"
#include "cycles.h"
#include "ending.h"
#include "live.h"
#include "orphans.h"
#include "patience.h"
#include "progress.h"
#include "switching.h"
#include "trigger.h"
#include "proto/base/clock.h"
#include "daemon/catalogue/retention.h"
#include "daemon/core/connection.h"
#include "daemon/core/manager.h"
#include "daemon/core/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long an agent may take to send DONE after CANCEL. */
#define CANCEL_NS 3000000000ull
/* How long an answer waits for the note, which usually takes some tens of us. With a slow disk the answer is sent
 * without it. */
#define NOTE_NS 1000000000ull
/* How long the ingest of a capture may wait until other agents have answered: a segment has room for more than that. */
#define OTHERS_NS 300000000ull

static uint32_t header_load(const _Atomic uint32_t *value)
{
	return atomic_load_explicit(value, memory_order_acquire);
}

/* Numbers are consecutive, so their lowest bits spread them evenly. */
static struct capture **bucket_of(const struct live *live, uint64_t number)
{
	return &live->by_number[number & (live->buckets - 1)];
}

static void put_in_bucket(struct live *live, struct capture *capture)
{
	struct capture **bucket = bucket_of(live, capture->facts.number);
	capture->same_bucket = *bucket;
	*bucket = capture;
}

#define BUCKETS_FIRST 64

/* Doubles the buckets where all are taken. False where out of memory. */
static bool have_buckets(struct live *live)
{
	if (live->capture_count < live->buckets)
		return true;
	size_t count = live->buckets ? 2 * live->buckets : BUCKETS_FIRST;
	struct capture **buckets = calloc(count, sizeof *buckets);
	if (!buckets)
		return live->buckets != 0;
	free(live->by_number);
	live->by_number = buckets;
	live->buckets = count;
	for (struct capture *capture = live->captures; capture; capture = capture->next)
		put_in_bucket(live, capture);
	return true;
}

struct capture *capture_add(struct server *server, const struct capture_facts *facts)
{
	struct capture *capture = have_buckets(live_of(server)) ? calloc(1, sizeof *capture) : NULL;
	if (!capture)
		return NULL;
	capture->server = server;
	capture->facts = *facts;
	capture->kept_fd = -1;
	capture->next = live_of(server)->captures;
	if (capture->next)
		capture->next->previous = capture;
	live_of(server)->captures = capture;
	live_of(server)->capture_count++;
	put_in_bucket(live_of(server), capture);
	if (live_of(server)->trim_peak < live_of(server)->capture_count)
		live_of(server)->trim_peak = live_of(server)->capture_count;
	return capture;
}

void capture_set_process(struct capture *capture, struct process *process)
{
	if (capture->previous_of_process)
		capture->previous_of_process->next_of_process = capture->next_of_process;
	else if (capture->process)
		capture->process->captures = capture->next_of_process;
	if (capture->next_of_process)
		capture->next_of_process->previous_of_process = capture->previous_of_process;
	capture->process = process;
	capture->previous_of_process = NULL;
	capture->next_of_process = process ? process->captures : NULL;
	if (capture->next_of_process)
		capture->next_of_process->previous_of_process = capture;
	if (process)
		process->captures = capture;
}

void capture_charge(struct capture *capture, struct quota_user *user, uint64_t bytes)
{
	capture->user = quota_user_ref(user);
	capture->memory = bytes;
	quota_capture_begin(capture->server, user, bytes);
}

void capture_remove(struct capture *capture)
{
	struct server *server = capture->server;
	if (capture->previous)
		capture->previous->next = capture->next;
	else
		live_of(server)->captures = capture->next;
	if (capture->next)
		capture->next->previous = capture->previous;
	live_of(server)->capture_count--;
	struct capture **at = bucket_of(live_of(server), capture->facts.number);
	while (*at != capture)
		at = &(*at)->same_bucket;
	*at = capture->same_bucket;
	switching_failed(capture, ERROR_CANCELLED, "");
	capture_set_process(capture, NULL);
	if (capture->kept_fd >= 0)
		close(capture->kept_fd);
	if (capture->kept && capture->state != STATE_HANDOFF)
		manager_unkeep(&server->manager, capture->facts.number);
	ingest_free(capture->ingest);
	quota_capture_end(capture->user, capture->memory);
	quota_user_unref(capture->user);
	free(capture);
	live_trim(server);
}

struct capture *capture_find(struct server *server, uint64_t number)
{
	const struct live *live = live_of(server);
	struct capture *capture = live->buckets ? *bucket_of(live, number) : NULL;
	while (capture && (capture->facts.number != number || capture->state == STATE_DROPPED))
		capture = capture->same_bucket;
	return capture;
}

bool capture_is_running(const struct capture *capture)
{
	return capture->state == STATE_ASKED || capture->state == STATE_RUNNING;
}

struct capture *capture_of_process(const struct process *process)
{
	struct capture *best = NULL;
	for (struct capture *capture = process->captures; capture; capture = capture->next_of_process)
		if (capture_is_running(capture) && (!best || capture->facts.number < best->facts.number))
			best = capture;
	return best;
}

/* The phase that its agent has written; a capture without a segment waits. */
static uint32_t phase_now(const struct capture *capture)
{
	return capture->ingest && capture->ingest->has_segment ? header_load(&capture->ingest->segment.header->phase)
							       : SEGMENT_ARMED;
}

enum capture_status capture_status_now(const struct capture *capture)
{
	switch (capture->state) {
	case STATE_ENDING:
	case STATE_FINISHING:
	case STATE_ORPHAN:
		return CAPTURE_FINISHING;
	case STATE_STORING:
		return capture->facts.status;
	case STATE_ASKED:
	case STATE_RUNNING:
	case STATE_HANDOFF:
	case STATE_DROPPED:
		break;
	}
	switch (phase_now(capture)) {
	case SEGMENT_ARMED:
	case SEGMENT_ENABLE:
		return CAPTURE_ARMED;
	case SEGMENT_WARMUP:
		return segment_has_room(&capture->ingest->segment) ? CAPTURE_WARMUP : CAPTURE_ARMED;
	case SEGMENT_RECORD:
		return CAPTURE_RECORDING;
	default:
		return CAPTURE_FINISHING;
	}
}

bool capture_has_begun(const struct capture *capture)
{
	return capture_status_now(capture) != CAPTURE_ARMED || phase_now(capture) != SEGMENT_ARMED;
}

unsigned capture_steps(const struct capture *capture)
{
	if (!capture->ingest || !capture->ingest->has_segment)
		return 0;
	uint32_t steps = header_load(&capture->ingest->segment.header->steps_recorded);
	return steps > capture->facts.steps_wanted ? (unsigned)capture->facts.steps_wanted : steps;
}

void capture_work(struct capture *capture, struct work_pool *pool, int64_t (*run)(struct work *work),
		  void (*done)(struct work *work))
{
	struct ingest *ingest = capture->ingest;
	ingest->handoff = capture->handoff;
	ingest->owner = capture;
	ingest->work.run = run;
	ingest->work.done = done;
	ingest->work.owner = capture->user ? capture->user->uid : capture->facts.who.uid;
	work_submit(pool, &ingest->work);
}

void capture_cancel(struct capture *capture, enum cancel_reason reason)
{
	if (capture->state == STATE_ORPHAN && !capture->cancel)
		capture->cancel = reason; /* its agent is told when it comes back */
	if (!capture_is_running(capture) || capture->cancel)
		return;
	capture->cancel = reason;
	capture->cancelled_at = clock_monotonic();
	if (!capture->process || capture->unsent)
		return;
	struct message_cancel cancel = MESSAGE_INIT(CANCEL, cancel);
	cancel.capture = capture->facts.number;
	cancel.reason = reason;
	conn_send(capture->process->conn, &cancel, sizeof cancel, -1);
}

void captures_out_of_space(struct server *server, const struct space *space)
{
	for (struct capture *capture = live_of(server)->captures; capture; capture = capture->next) {
		if (!capture_is_running(capture) || !capture->ingest || !atomic_load(&capture->ingest->low))
			continue;
		if (space && !capture->cancel) {
			space_ended_sentence(space, capture->cancel_text, sizeof capture->cancel_text);
			capture_cancel(capture, REASON_DAEMON);
		} else if (!space) {
			atomic_store(&capture->ingest->low, 0);
		}
	}
}

void capture_tick(struct capture *capture, uint64_t now)
{
	if (capture->state == STATE_ORPHAN) {
		orphan_tick(capture, now);
		return;
	}
	if (!capture_is_running(capture)) {
		if (capture->state == STATE_STORING && capture->retry_at && now > capture->retry_at)
			ending_store(capture);
		capture_progress(capture, now);
		return;
	}
	if (capture->unsent) {
		if (capture->deadline && now > capture->deadline)
			capture_cancel(capture, REASON_DEADLINE);
		arming_work(capture);
		return;
	}
	if (capture->state == STATE_ASKED && patience_is_silent(capture->process, capture->asked_at, now)) {
		capture_cancel(capture, REASON_DEADLINE);
		/* What the agent does not read waits in its socket, descriptors, too. It is sent no more until it sends
		 * something. */
		if (capture->process)
			capture->process->silent = true;
		char sentence[64];
		snprintf(sentence, sizeof sentence, "its agent does not answer: %s",
			 patience_sentence(capture->process));
		capture_refused(capture, ERROR_FAILED, sentence);
		return;
	}
	if (capture->unanswered && capture->state == STATE_RUNNING && now > capture->asked_at + NOTE_NS)
		capture_accepted(capture);
	bool others = capture->trigger && capture->trigger->waiting && now < capture->asked_at + OTHERS_NS;
	if (capture->state == STATE_RUNNING && !capture->unanswered && !others)
		capture_submit(capture);
	if (atomic_load_explicit(&capture->ingest->trouble, memory_order_acquire))
		capture_cancel(capture, REASON_DAEMON);
	else if (atomic_load_explicit(&capture->ingest->over, memory_order_acquire))
		capture_cancel(capture, REASON_LIMIT);
	else if (atomic_load_explicit(&capture->ingest->low, memory_order_acquire) && !capture->cancel)
		retention_press(capture->server);
	if (capture->deadline && now > capture->deadline)
		capture_cancel(capture, REASON_DEADLINE);
	if (capture->cancelled_at && patience_over(capture->process, capture->cancelled_at, CANCEL_NS, now)) {
		if (capture->facts.cycle && !capture_has_begun(capture)) {
			capture_drop(capture);
			return;
		}
		char limit[TIME_LIMIT_TEXT_BYTES], what[REASON_BYTES];
		snprintf(what, sizeof what, "%.300s, and its agent did not answer (is the process stopped?),",
			 capture->cancel == REASON_DEADLINE ? ending_time_limit(capture, limit)
			 : *capture->cancel_text	    ? capture->cancel_text
							    : cancel_reason_sentence(capture->cancel));
		ending_after(capture, capture->cancel, what);
		capture_end(capture);
		cycles_drop(capture);
		return;
	}
	if (!capture->kept && capture->state == STATE_RUNNING)
		capture->kept =
			manager_keep(&capture->server->manager, capture->facts.number, capture->ingest->segment.fd);
	bool begun = capture_has_begun(capture);
	if (!capture->catalogued && !capture->unanswered && begun && capture->state == STATE_RUNNING)
		capture_catalogue(capture);
	if (begun)
		cycles_follow_up(capture);
	capture_progress(capture, now);
}
