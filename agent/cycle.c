/* cycle.c - see cycle.h. */
#include "cycle.h"
#include "after.h"
#include "collectors.h"
#include "decline.h"
#include "core/filter.h"
#include "core/hold.h"
#include "core/keeper.h"
#include "core/stamp.h"
#include "link.h"
#include "next.h"
#include "orphan.h"
#include "stacks/garbage.h"
#include "stacks/garbage_watch.h"
#include "thread_times.h"
#include "agent/sink/control.h"
#include "steps/counter.h"
#include "tick.h"

#include "../proto/errors.h"
#include "../proto/filters.h"

#include <string.h>
#include <time.h>

/* How long to wait after the last boundary for open ranges to end, if there are any. */
#define LINGER_NS (SECOND / 4)
/* How long one call of cycle_move() waits for a boundary that is under way. */
#define TICK_NS (SECOND / 100)
/* How long to wait for threads to leave the hooks; shorter where the job is exiting. */
#define LEAVE_NS (SECOND / 2)
#define LEAVE_AT_EXIT_NS (SECOND / 20)
/* How long records of steps without room wait for a chunk. */
#define SPARE_NS (2 * SECOND)
/* How long the collectors may drain; shorter where the job is exiting and waits for that. */
#define DRAIN_NS (SECOND)
#define DRAIN_AT_EXIT_NS (SECOND / 10)
/* How long before the step at_step the collectors are switched on. After the first cycle: so many times what that took
 * in the cycle before. */
#define LEAD_NS (SECOND / 2)
#define LEAD_TIMES 4
/* The time of steps before is the median of so many. */
#define BEFORE_STEPS 64

static uint64_t cpu_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec + keeper_cpu();
}

/* Waits for a tick that is under way, but not for long: its thread may get no processor, or may have jumped out of
 * it. */
uint32_t cycle_move(uint32_t from, uint32_t to)
{
	for (uint64_t deadline = 0;;) {
		uint32_t phase = atomic_load_explicit(&control_phase, memory_order_acquire);
		if (phase == CONTROL_TICK) {
			struct timespec nap = {0, 20000};
			uint64_t now = sink_now();
			deadline = deadline ? deadline : now + TICK_NS;
			if (now >= deadline)
				return CONTROL_TICK;
			nanosleep(&nap, NULL);
			continue;
		}
		if (!(from & 1u << phase))
			return CONTROL_TICK;
		if (atomic_compare_exchange_weak_explicit(&control_phase, &phase, to, memory_order_acq_rel,
							  memory_order_relaxed))
			return phase;
	}
}

void cycle_finish(uint32_t reason)
{
	control_run.cancelled_all = true;
	uint32_t any = 1u << CONTROL_ARMED | 1u << CONTROL_WARMUP | 1u << CONTROL_RECORD;
	/* From here on the step thread only counts, so tick_end() is called here. */
	if (cycle_move(any, CONTROL_DRAIN) != CONTROL_TICK) {
		tick_end(sink_now(), reason);
		return;
	}
	if (atomic_load(&control_phase) == CONTROL_TICK && !tick_bury()) {
		control_run.end_wish = reason;
		control_run.end_at = sink_now() + CYCLE_TICK_PAUSE_NS;
		return;
	}
	if (cycle_move(1u << CONTROL_BETWEEN, CONTROL_IDLE) != CONTROL_TICK) {
		steps_watch(STEP_SOURCE_NONE, NULL, 0);
		steps_follow(NULL);
	}
}

bool cycle_stop_for_filter(void)
{
	if (!filter_is_over_a_thread(sink_now(), 0))
		return false;
	decline_send(control_run.capture, ERROR_UNAVAILABLE, filters_thread_sentence);
	cycle_finish(REASON_AGENT);
	return true;
}

void cycle_switch_on(void)
{
	if (cycle_stop_for_filter()) {
		hold_release();
		return;
	}
	stamp_begin();
	int error = collectors_start();
	hold_release();
	control_run.enable = sink_now() - control_run.warmup_started;
	if (error) {
		decline_send(control_run.capture, ERROR_FAILED, "the agent could not get memory for the capture");
		cycle_finish(REASON_AGENT);
		return;
	}
	/* The step thread may have ended the capture meanwhile. */
	uint32_t phase = SEGMENT_ENABLE;
	atomic_compare_exchange_strong(&control_run.segment.header->phase, &phase, SEGMENT_WARMUP);
	atomic_store_explicit(&control_ready, 1, memory_order_release);
	garbage_watch_begin();
	/* Comes last, because it takes time and nothing waits for it. */
	thread_times_begin();
}

/* Are collectors switched on now, and not at a later boundary? Yes for step sources that only collectors see, for a
 * window of time, which begins when they are on, and for an epoch, whose begin cannot be foreseen. No for batches: they
 * are seen without collectors, and their phase may come much later. Else, if the warm-up or the recording would begin
 * with the next step: it begins within this one. */
static bool is_on_at_once(void)
{
	if (control_source >= STEP_SOURCE_RANGE)
		return control_source != STEP_SOURCE_BATCH;
	if (control_run.at_step)
		return tick_warms_up(steps_count() + 2, steps_median(steps_count(), BEFORE_STEPS, NULL));
	return schedule_record_at(&control_run.schedule, 0) == 0;
}

void cycle_begin(uint64_t capture, const struct segment *segment)
{
	static uint32_t generation;
	control_run.segment = *segment;
	control_run.capture = capture;
	collectors_forget();
	control_run.generation = ++generation ? generation : ++generation;
	control_run.active =
		control_run.goes_on ? control_run.active - control_run.recorded : control_run.schedule.active;
	control_run.late = control_run.recorded = control_run.spares = 0;
	control_run.lead = control_run.cycle ? LEAD_TIMES * control_run.enable : LEAD_NS;
	control_run.first_step = control_run.enable = control_run.record_deadline = 0;
	if (orphan_connected())
		control_run.alone_until = 0;
	control_run.cpu_at_start = cpu_now();
	if (!control_run.goes_on)
		control_run.before_upto = steps_count();
	if (control_run.goes_on) {
		control_run.at_step = control_run.coming.switch_at;
	} else if (control_run.cycle && control_run.first_at_step) {
		control_run.at_step = control_run.first_at_step;
		tick_next_at_step(steps_count() + 1 + control_run.schedule.warmup);
	}
	atomic_store(&control_ready, 0);
	atomic_store(&control_want_start, 0);
	atomic_store(&control_end_reason, REASON_NONE);
	garbage_find();
	collectors_arm();
	control_run.still = collectors_want_still();
	uint32_t from = 1u << CONTROL_IDLE | 1u << CONTROL_BETWEEN | 1u << CONTROL_DRAIN;
	bool now = control_run.goes_on || is_on_at_once();
	control_run.warmup_started = sink_now();
	atomic_store(&control_run.segment.header->phase, now ? SEGMENT_ENABLE : SEGMENT_ARMED);
	steps_follow(tick_boundary);
	cycle_move(from, now ? CONTROL_WARMUP : CONTROL_ARMED);
	if (now)
		cycle_switch_on();
}

static uint64_t median_of_steps(uint64_t first, uint32_t n)
{
	/* Steps that only this capture counts are not on the status page. */
	return n && control_source == steps_source() ? steps_median(first + n - 1, n, NULL) : 0;
}

/* Waits until no range from before the last boundary is open, or the time is up. */
static void linger(uint64_t from)
{
	while (sink_open_count() > 0 && sink_now() < from + LINGER_NS) {
		struct timespec nap = {0, 200000};
		nanosleep(&nap, NULL);
	}
}

/* A capture without its steps is worth little. So records of steps without room wait until the daemon frees a chunk. */
static void write_spares(uint64_t deadline)
{
	struct sink_thread *own = sink_own();
	for (uint32_t i = 0; own && i < control_run.spares; i++) {
		while (!sink_write_spared(own, &control_run.spare[i])) {
			if (!link_wait_for_room(control_run.capture, deadline)) {
				sink_lost(LOSS_NO_SPACE, EVENT_STEP);
				break;
			}
		}
	}
}

void cycle_drain(void)
{
	uint64_t last = atomic_load_explicit(&control_end_time, memory_order_acquire);
	uint32_t reason = atomic_load(&control_end_reason);
	struct message_done done = MESSAGE_INIT(DONE, done);
	uint32_t stuck = 0;
	/* The capture may have ended before its collectors were switched on, while the step thread stands. */
	hold_release();
	next_tell(CONTROL_DRAIN);
	done.agent_bytes = control_run.collectors_on ? sink_bytes() : 0;
	if (control_run.collectors_on) {
		sink_sweep(last);
		garbage_watch_end(last);
		thread_times_end(atomic_load(&control_run.thread));
		if (reason != REASON_EXIT)
			linger(sink_now());
		collectors_stop(sink_now(), reason == REASON_EXIT ? DRAIN_AT_EXIT_NS : DRAIN_NS);
		uint64_t patience = sink_now() + (orphan_connected() ? SPARE_NS : 0);
		write_spares(patience);
		thread_times_write(control_run.capture, reason == REASON_EXIT ? 0 : patience);
		stuck = sink_finish(last, sink_now() + (reason == REASON_EXIT ? LEAVE_AT_EXIT_NS : LEAVE_NS));
		sink_release();
		done.agent_bytes += collectors_bytes();
		collectors_disarm();
	} else {
		collectors_disarm();
	}
	done.clock_off = stamp_end();
	atomic_store_explicit(&control_run.segment.header->phase, SEGMENT_DONE, memory_order_release);
	done.capture = control_run.capture;
	done.reason = reason;
	done.steps = control_run.recorded;
	done.first_step = control_run.recorded ? control_run.first_step : 0;
	if (!control_run.goes_on)
		control_run.step_before = steps_median(control_run.before_upto, BEFORE_STEPS, NULL);
	done.step_before = control_run.step_before;
	done.step_during = median_of_steps(control_run.first_step, control_run.recorded);
	done.enable = control_run.enable;
	done.drain = sink_now() - last;
	done.agent_cpu = cpu_now() - control_run.cpu_at_start;
	done.late = control_run.late;
	done.step_source = control_source;
	done.other_thread_steps = control_run.recorded ? steps_other_threads() - control_run.others_at_start : 0;
	bool switches = atomic_exchange(&control_run.switch_at, 0) != 0, whole = reason == REASON_NONE;
	whole &= !control_run.cancelled_all;
	control_run.goes_on = whole && switches && control_run.recorded < control_run.active;
	bool more = whole &&
		    (control_run.schedule.repeat == 0 || control_run.cycle + 1 < control_run.schedule.repeat) &&
		    control_run.duration == 0 && (!control_run.first_at_step || control_run.at_multiple);
	more |= control_run.goes_on;
	orphan_done(&control_run.segment, control_run.trigger, collectors_told(), &done, stuck > 0);
	memset(&control_run.segment, 0, sizeof control_run.segment);
	atomic_store(&control_ready, 0);
	if (control_run.duration == 0 && control_run.recorded && !control_run.goes_on)
		after_begin(control_run.capture);
	if (more && (orphan_connected() || sink_now() < control_run.alone_until)) {
		next_number(switches);
		control_run.schedule.skip_first = 0;
		if (control_run.next.header) {
			struct segment segment = control_run.next;
			control_run.next.header = NULL;
			cycle_begin(control_run.next_capture, &segment);
		} else {
			cycle_move(1u << CONTROL_DRAIN, CONTROL_BETWEEN);
		}
		return;
	}
	if (switches)
		decline_send(control_run.next_capture, ERROR_CANCELLED, decline_over);
	next_drop();
	steps_watch(STEP_SOURCE_NONE, NULL, 0);
	steps_follow(NULL);
	atomic_store_explicit(&control_phase, CONTROL_IDLE, memory_order_release);
}
