/* control.c - see control.h. One capture at a time; its cycles follow each other (cycle.c, next.c), due.c has the timers.
 *
 * Two threads meet here. The step thread ticks (tick.c): it owns `control_run` while control_phase is CONTROL_TICK, which it
 * enters by compare-and-swap from the phase it found and leaves by a store. The agent's thread changes the phase by
 * compare-and-swap only, and waits where it finds CONTROL_TICK; so the step thread never waits for anybody. */
#include "control.h"
#include "after.h"
#include "collectors.h"
#include "cycle.h"
#include "decline.h"
#include "core/keeper.h"
#include "core/life.h"
#include "core/room.h"
#include "link.h"
#include "next.h"
#include "orphan.h"
#include "agent/sink/control.h"
#include "steps/counter.h"
#include "tick.h"

#include "../proto/errors.h"

#include <string.h>
#include <time.h>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 /* Linux 4.17; before that, a wish */
#endif

/* A recording without a daemon ends after this time, because nobody could end it otherwise. Usually its steps end it earlier. */
#define ALONE_NS (60 * SECOND)
/* A capture that has not begun to record waits this long for the next daemon. A restart takes less than a second; after a crash the
 * service is started again within a few. */
#define RETURN_NS (20 * SECOND)
/* When the agent leaves: how long it waits for the daemon to take what was recorded. */
#define TAKEN_NS (2 * SECOND)
/* When the agent wants to leave: how long until it looks again. */
#define LEAVE_AGAIN_NS (SECOND / 100)

/* Since when the agent is leaving the process; 0 = it is not leaving. */
static uint64_t leaving_since;

const char *control_step_range(void)
{
	return control_run.step_range;
}

void control_arm(const struct message_arm *arm, const struct segment *given, int error)
{
	struct segment segment = *given;
	if (error < 0) {
		decline_send(arm->capture, ERROR_FAILED, room_sentence(error));
		return;
	}
	if (arm->cycle > 0 && arm->options & ARM_SWITCH) {
		next_switch(arm, &segment);
		return;
	}
	if (arm->cycle > 0) {
		uint32_t phase = atomic_load(&control_phase);
		if (phase == CONTROL_IDLE || arm->trigger != control_run.trigger || control_run.next.header) {
			keeper_unmap(&segment);
			decline_send(arm->capture, ERROR_CANCELLED, decline_over);
			return;
		}
		if (phase == CONTROL_BETWEEN) {
			cycle_begin(arm->capture, &segment);
		} else {
			control_run.next = segment;
			control_run.next_capture = arm->capture;
		}
		return;
	}
	uint32_t reason = ERROR_FAILED;
	const char *sentence = leaving_since ? "its agent is being detached" : decline_arm(arm, &reason);
	if (sentence) {
		keeper_unmap(&segment);
		decline_send(arm->capture, reason, sentence);
		return;
	}
	memset(&control_run, 0, sizeof control_run);
	atomic_store(&control_ticks, 0);
	control_run.trigger = arm->trigger;
	control_run.schedule = (struct schedule){arm->skip_first, arm->wait, arm->warmup, arm->active, arm->repeat};
	control_run.at_step = control_run.first_at_step = arm->at_step;
	control_run.at_multiple = arm->at_multiple;
	control_run.duration = arm->duration;
	control_run.max_events = arm->max_events;
	control_run.batches = arm->batches;
	memcpy(control_run.step_range, arm->step_range, sizeof control_run.step_range);
	memcpy(control_run.step_operator, arm->step_operator, sizeof control_run.step_operator);
	memcpy(control_run.step_optimizer, arm->step_optimizer, sizeof control_run.step_optimizer);
	if (control_run.duration)
		control_source = STEP_SOURCE_DURATION;
	else if (*control_run.step_range)
		control_source = STEP_SOURCE_RANGE;
	else if (*control_run.step_operator)
		control_source = STEP_SOURCE_OPERATOR;
	else if (*control_run.step_optimizer)
		control_source = STEP_SOURCE_NAMED;
	else if (control_run.batches == BATCHES_EPOCH)
		control_source = STEP_SOURCE_EPOCH;
	else if (control_run.batches)
		control_source = STEP_SOURCE_BATCH;
	else
		control_source = steps_source();
	next_take_wishes(arm);
	steps_watch(control_source >= STEP_SOURCE_RANGE ? control_source : STEP_SOURCE_NONE, control_run.step_optimizer,
		    control_run.batches);
	struct message_armed armed = MESSAGE_INIT(ARMED, armed);
	armed.capture = arm->capture;
	armed.step = steps_count();
	armed.step_source = control_source;
	link_send(&armed, -1);
	cycle_begin(arm->capture, &segment);
}

void control_at_step(const struct message_at_step *m)
{
	uint32_t phase = cycle_move(1u << CONTROL_ARMED | 1u << CONTROL_WARMUP, CONTROL_TICK);
	if (phase == CONTROL_TICK)
		return;
	/* The phase is CONTROL_TICK now: control_run belongs to this thread, and the step thread only counts steps, until the phase is put back. */
	if (m->capture == control_run.capture && control_run.at_multiple && m->at_step)
		control_run.at_step = control_run.first_at_step = m->at_step;
	atomic_store_explicit(&control_phase, phase, memory_order_release);
}

void control_cancel(uint64_t capture, uint32_t reason)
{
	if (atomic_load(&control_phase) == CONTROL_IDLE)
		return;
	/* Between two cycles the daemon may name the one that has just ended, or the next. */
	if (capture && capture != control_run.capture &&
	    !(control_run.next.header && capture == control_run.next_capture) &&
	    atomic_load(&control_phase) != CONTROL_BETWEEN)
		return;
	cycle_finish(reason ? reason : REASON_CANCELLED);
}

void control_leave(void)
{
	if (leaving_since)
		return;
	leaving_since = sink_now();
	control_cancel(0, REASON_DETACHED);
}

bool control_may_go(uint64_t *due)
{
	if (!leaving_since)
		return false;
	uint64_t now = sink_now();
	bool idle = atomic_load_explicit(&control_phase, memory_order_acquire) == CONTROL_IDLE;
	if (idle && (!orphan_any() || now >= leaving_since + TAKEN_NS))
		return true;
	*due = now + LEAVE_AGAIN_NS < *due ? now + LEAVE_AGAIN_NS : *due;
	return false;
}

void control_forget(void)
{
	orphan_lost();
	orphan_forget_all();
	after_forget();
	memset(&control_run, 0, sizeof control_run);
	leaving_since = 0;
}

void control_finish(uint64_t capture)
{
	orphan_finish(capture);
}

void control_daemon_lost(void)
{
	orphan_lost();
	uint32_t phase = atomic_load(&control_phase);
	if (phase == CONTROL_IDLE)
		return;
	control_run.alone_until = sink_now() + RETURN_NS;
	/* Drops the segment of a cycle that has not begun: the next daemon sends another. The next daemon does not know
	 * of an ARM_SWITCH either. */
	next_drop();
	/* The recording goes on within the chunks that it has; a window of time keeps its own end. */
	if (!control_run.duration)
		control_run.record_deadline = sink_now() + ALONE_NS;
}

void control_daemon_found(void)
{
	uint32_t phase = atomic_load(&control_phase);
	/* This includes a capture that has just ended and is drained next: the daemon must get its segment before its
	 * DONE. */
	bool under_way = phase != CONTROL_IDLE && phase != CONTROL_BETWEEN;
	/* The capture under way is offered first. The daemon would otherwise begin another cycle when it hears of the
	 * end of the cycle before. */
	if (under_way)
		orphan_offer(&control_run.segment, control_run.capture, control_run.trigger, collectors_told());
	orphan_found();
	if (!control_run.duration)
		control_run.record_deadline = 0;
	/* Between two cycles the new daemon may not know the schedule, so the agent waits for its next segment for a
	 * bounded time. */
	control_run.alone_until = phase == CONTROL_BETWEEN ? sink_now() + RETURN_NS : 0;
}

void control_abandon(void)
{
	uint32_t any = 1u << CONTROL_ARMED | 1u << CONTROL_WARMUP | 1u << CONTROL_RECORD;
	control_run.cancelled_all = true;
	/* A tick that is under way may still record one step, but no more. */
	uint32_t phase = atomic_load(&control_phase);
	if (any & 1u << phase && atomic_compare_exchange_strong(&control_phase, &phase, CONTROL_BETWEEN)) {
		tick_end(sink_now(), REASON_AGENT);
		phase = CONTROL_DRAIN;
	}
	/* The daemon takes what the segment holds. */
	if (phase == CONTROL_DRAIN)
		atomic_store_explicit(&control_run.segment.header->phase, SEGMENT_DONE, memory_order_release);
}

uint32_t control_orphans(void)
{
	uint32_t phase = atomic_load(&control_phase);
	/* All that control_daemon_found() offers. */
	return orphan_count() + (phase != CONTROL_IDLE && phase != CONTROL_BETWEEN);
}

void control_in_child(void)
{
	steps_in_child();
	/* A signal handler may interrupt this thread while it writes an event, and fork. The child goes on with that
	 * event, but has no mapping of the segment: so it gets private memory there. */
	const struct segment *s = &control_run.segment;
	if (s->map && (sink_inside() || atomic_load(&control_phase) == CONTROL_TICK))
		/* NOLINTNEXTLINE(bugprone-unused-return-value): there is nothing else to do where it fails */
		mmap(s->map, s->map_bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
}

void control_exit(uint64_t wait)
{
	if (!life_alive() || atomic_load(&control_phase) == CONTROL_IDLE)
		return;
	uint64_t deadline = sink_now() + wait;
	control_run.cancelled_all = true;
	for (;;) {
		uint32_t phase = atomic_load(&control_phase);
		if (phase == CONTROL_IDLE || sink_now() >= deadline)
			return;
		uint32_t any = 1u << CONTROL_ARMED | 1u << CONTROL_WARMUP | 1u << CONTROL_RECORD;
		if (any & 1u << phase && atomic_compare_exchange_strong(&control_phase, &phase, CONTROL_TICK)) {
			tick_end(sink_now(), REASON_EXIT);
			atomic_store(&control_phase, CONTROL_DRAIN);
			life_wake();
		}
		struct timespec nap = {0, 500000};
		nanosleep(&nap, NULL);
	}
}
