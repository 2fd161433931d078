/* ending.c - see ending.h. Thread: the loop's; what runs on a pool says so. No locks. */
#include "ending.h"
#include "before.h"
#include "capture.h"
#include "ingest_finish.h"
#include "live.h"
#include "switching.h"
#include "trigger.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "daemon/catalogue/captures.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/catalogue/retention.h"
#include "daemon/catalogue/usage.h"
#include "daemon/core/connection.h"
#include "daemon/core/server.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct put_work {
	struct work work;
	struct server *server;
	struct capture_facts facts;
};

static int64_t put_run(struct work *work)
{
	struct put_work *put = (struct put_work *)work;
	catalogue_put_capture(catalogue_of(put->server), &put->facts);
	free(put);
	return WORK_DONE;
}

void capture_catalogue(struct capture *capture)
{
	struct put_work *put = calloc(1, sizeof *put);
	if (!put)
		return; /* the final row says all */
	put->work.run = put_run;
	put->server = capture->server;
	put->facts = capture->facts;
	capture->catalogued = true;
	if (!catalogue_submit(catalogue_of(capture->server), &put->work))
		free(put);
}

static int64_t store_run_final(struct work *work)
{
	struct capture *capture = (struct capture *)((char *)work - offsetof(struct capture, store_work));
	capture->unwritten = catalogue_put_capture(catalogue_of(capture->server), &capture->facts) != 0;
	return WORK_DONE;
}

static void stored(struct work *work);

/* Without its row nobody finds the capture, so the row is tried again as long as the disk is full. */
#define RETRY_NS 1000000000ull
void ending_store(struct capture *capture)
{
	capture->retry_at = 0;
	capture->store_work = (struct work){.run = store_run_final, .done = stored};
	if (!catalogue_submit(catalogue_of(capture->server), &capture->store_work))
		capture->retry_at = clock_monotonic() + RETRY_NS;
}

static void tell_stored(struct capture *capture)
{
	struct server *server = capture->server;
	usage_add(usage_of(server), capture->facts.who.uid, 1, capture->facts.bytes);
	log_line("capture %s%llu of pid %d: %s%s%s, %llu steps, %llu events, %llu dropped", server->user ? "u" : "",
		 (unsigned long long)capture->facts.number, capture->facts.who.pid,
		 capture_status_word(capture->facts.status), *capture->facts.reason ? ": " : "", capture->facts.reason,
		 (unsigned long long)capture->facts.steps_recorded, (unsigned long long)capture->facts.events,
		 (unsigned long long)capture->facts.lost);
	if (capture->trigger && capture->trigger->conn)
		retention_hold(server, capture->facts.number, capture->facts.who.pid, capture->trigger->conn);
	if (capture->trigger)
		trigger_captured(capture->trigger, capture);
	capture->trigger = NULL;
}

static void stored(struct work *work)
{
	struct capture *capture = (struct capture *)((char *)work - offsetof(struct capture, store_work));
	struct server *server = capture->server;
	bool first = !capture->told_stored;
	capture->told_stored = true;
	if (first)
		tell_stored(capture);
	if ((work->failed || capture->unwritten) && !server->closing) {
		if (first)
			log_line("capture %llu: its row cannot be written; trying again",
				 (unsigned long long)capture->facts.number);
		capture->retry_at = clock_monotonic() + RETRY_NS;
		server_tick_adjust(server);
		return;
	}
	capture_remove(capture);
	retention_look(server);
}

static void finished(struct work *work)
{
	struct ingest *ingest = (struct ingest *)work;
	struct capture *capture = ingest->owner;
	uint64_t step_after = capture->facts.step_after;
	capture->facts = ingest->facts;
	capture->facts.step_after = step_after;
	/* The file holds this sentence as a note, whatever the reason is. */
	if (!*capture->facts.reason)
		text_copy(capture->facts.reason, sizeof capture->facts.reason, capture->switched);
	counters_captured(&capture->server->counters, &ingest->facts, ingest->lost, ingest->events_taken,
			  ingest->finish_ns);
	ingest_free(ingest);
	capture->ingest = NULL;
	if (capture->process) {
		struct message_finish finish = MESSAGE_INIT(FINISH, finish);
		finish.capture = capture->facts.number;
		finish.wanted = 1;
		conn_send(capture->process->conn, &finish, sizeof finish, -1);
	}
	capture->state = STATE_STORING;
	ending_store(capture);
}

static void fill_ending(struct capture *capture)
{
	struct ingest *ingest = capture->ingest;
	struct store_ending *ending = &ingest->ending;
	const struct message_done *done = &capture->done;
	ingest->facts = capture->facts;
	ingest->finish_most = capture->server->config.finish_time;
	memcpy(ending->collectors, capture->collectors, sizeof ending->collectors);
	ending->done_at = capture->done_at;
	ending->has_done = capture->has_done;
	if (capture->has_done) {
		ending->step_before = done->step_before;
		ending->step_during = done->step_during;
		ending->enable = done->enable;
		ending->drain = done->drain;
		ending->agent_cpu = done->agent_cpu;
		ending->agent_bytes = done->agent_bytes;
		ending->clock_off = done->clock_off;
		ending->other_thread_steps = done->other_thread_steps;
		ending->late = done->late;
		ending->step_source = done->step_source;
		/* Steps that only a capture counts are not on the page, which knows nothing of those before. */
		if (capture->process &&
		    (done->step_source == STEP_SOURCE_PROFD_STEP || done->step_source == STEP_SOURCE_OPTIMIZER))
			before_tell(capture->process->page, done->first_step, done->steps, ending->before,
				    sizeof ending->before);
	}
	text_copy(ending->note, sizeof ending->note, capture->switched);
	text_copy(ending->step_range, sizeof ending->step_range, capture->arm.step_range);
	capture_id_text(capture->facts.number, capture->server->user, ending->id);
	trigger_id_text(capture->facts.trigger, capture->server->user, ending->trigger_id);
}

/* On the finish pool. All records of the segment are in the file, or given up: its memory is freed. An agent that wakes
 * up late finds the segment empty, and nobody reads what it writes there. */
static int64_t finish_run(struct work *work)
{
	struct ingest *ingest = (struct ingest *)work;
	uint64_t began = clock_monotonic();
	int64_t again = ingest_finish(work);
	ingest->finish_ns = clock_monotonic() - began;
	if (ingest->has_segment)
		segment_forget(&ingest->segment);
	return again;
}

void ending_finish(struct capture *capture)
{
	struct ingest *ingest = capture->ingest;
	capture->state = STATE_FINISHING;
	fill_ending(capture);
	ingest->work.run = finish_run;
	ingest->work.done = finished;
	work_submit(&live_of(capture->server)->finish_pool, &ingest->work);
}

static void ingested(struct work *work)
{
	struct ingest *ingest = (struct ingest *)work;
	struct capture *capture = ingest->owner;
	if (capture->server->closing)
		return;
	if (capture->state == STATE_DROPPED) {
		segment_forget(&ingest->segment);
		store_discard(ingest->store);
		ingest->store_open = false;
		capture_remove(capture);
		return;
	}
	if (capture->state == STATE_HANDOFF) {
		log_verbose("capture %llu of pid %d is left to its agent and the next daemon",
			    (unsigned long long)capture->facts.number, capture->facts.who.pid);
		capture_remove(capture);
		return;
	}
	/* A later daemon needs the file, or the note, of one cycle to go on with the schedule. */
	const struct capture *next = capture->followed_by ? capture_find(capture->server, capture->followed_by) : NULL;
	capture->held = next && next->noting;
	if (!capture->held)
		ending_finish(capture);
}

void capture_submit(struct capture *capture)
{
	if (capture->submitted || capture->noting)
		return;
	capture->submitted = true;
	capture->ingest->events_most = capture->server->config.capture_events;
	capture->ingest->flow = &capture->server->counters.flow;
	capture_work(capture, &live_of(capture->server)->ingest_pool, ingest_run, ingested);
}

static void wish_end(struct capture *capture)
{
	atomic_store_explicit(&capture->ingest->wish, INGEST_END, memory_order_release);
	capture_submit(capture);
	if (capture->submitted)
		work_kick(&live_of(capture->server)->ingest_pool, &capture->ingest->work);
}

void capture_end(struct capture *capture)
{
	if (capture->state >= STATE_DROPPED)
		return;
	switching_failed(capture, ERROR_CANCELLED, "");
	if (!capture->done_at)
		capture->done_at = clock_monotonic();
	capture->state = STATE_ENDING;
	wish_end(capture);
}

void ending_incomplete(struct capture *capture, enum cancel_reason code, const char *reason)
{
	capture->facts.status = CAPTURE_INCOMPLETE;
	capture->facts.reason_code = code;
	text_copy(capture->facts.reason, sizeof capture->facts.reason, reason);
}

void capture_drop(struct capture *capture)
{
	if (capture->state >= STATE_DROPPED)
		return;
	switching_failed(capture, ERROR_CANCELLED, "");
	if (capture->catalogued) {
		if (!*capture->facts.reason)
			ending_incomplete(capture, capture->cancel ? capture->cancel : REASON_CANCELLED,
					  "its schedule ended before it began");
		capture_end(capture);
		return;
	}
	if (capture->trigger) {
		capture->trigger->running--;
		capture->trigger = NULL;
	}
	capture_set_process(capture, NULL);
	capture->state = STATE_DROPPED;
	wish_end(capture);
}

void ending_after(struct capture *capture, enum cancel_reason code, const char *what)
{
	char reason[REASON_BYTES];
	if (capture->arm.duration)
		snprintf(reason, sizeof reason, "%s", what);
	else
		snprintf(reason, sizeof reason, "%s after %u of %llu steps", what, capture_steps(capture),
			 (unsigned long long)capture->facts.steps_wanted);
	ending_incomplete(capture, code, reason);
}

const char *ending_time_limit(const struct capture *capture, char ret[TIME_LIMIT_TEXT_BYTES])
{
	uint64_t milliseconds = capture->time_limit / 1000000;
	bool seconds = milliseconds % 1000 == 0;
	snprintf(ret, TIME_LIMIT_TEXT_BYTES, "the time limit of %llu %s came",
		 (unsigned long long)(seconds ? milliseconds / 1000 : milliseconds), seconds ? "s" : "ms");
	return ret;
}

bool capture_give_up(struct capture *capture)
{
	if (capture->state != STATE_ENDING && capture->state != STATE_FINISHING)
		return false;
	atomic_store_explicit(&capture->ingest->give_up, 1, memory_order_relaxed);
	return true;
}
