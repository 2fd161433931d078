/* control.c - see control.h. One capture at a time; its cycles follow each other.
 *
 * Two threads meet here. The step thread ticks (tick.c): it owns `control_run` while control_phase is CONTROL_TICK, which it
 * enters by compare-and-swap from the phase it found and leaves by a store. The agent's thread changes the phase by
 * compare-and-swap only, and waits where it finds CONTROL_TICK; so the step thread never waits for anybody. */
#include "control.h"
#include "after.h"
#include "collectors.h"
#include "decline.h"
#include "core/filter.h"
#include "core/keeper.h"
#include "core/life.h"
#include "link.h"
#include "orphan.h"
#include "core/room.h"
#include "core/sentence.h"
#include "stacks/garbage.h"
#include "thread_times.h"
#include "agent/sink/control.h"
#include "steps/counter.h"
#include "tick.h"

#include "../proto/errors.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 /* Linux 4.17; before that, a wish */
#endif

/* How long the last open ranges get to close after the last boundary; only where there are any. */
#define LINGER_NS (SECOND / 4)
/* How long a boundary that is under way is waited for at a time, and how long until the next time. */
#define TICK_NS (SECOND / 100)
#define TICK_PAUSE_NS (SECOND / 5)
/* How long hooks that are under way get to leave; less where the job is exiting. */
#define LEAVE_NS (SECOND / 2)
#define LEAVE_AT_EXIT_NS (SECOND / 20)
/* How long steps that found no room wait for some. */
#define SPARE_NS (2 * SECOND)
/* Collectors' own drain, and where the job is exiting and waits for it. */
#define DRAIN_NS (SECOND)
#define DRAIN_AT_EXIT_NS (SECOND / 10)
/* Before a step with a number, collectors get this time to be switched on, or so many times what they took in the cycle before. */
#define LEAD_NS (SECOND / 2)
#define LEAD_TIMES 4
/* While recording: how often newly provided chunks are mapped. */
#define POPULATE_NS (SECOND / 100)
/* As long as a recording uses less than what is mapped already: many processes may be recorded at a time. */
#define POPULATE_MOST_NS (8 * POPULATE_NS)
/* While recording: how often threads that are no more are looked for. */
#define SWEEP_NS (SECOND / 10)
/* A recording without a daemon ends after this, because nobody could end it otherwise. Mostly its steps end it before. */
#define ALONE_NS (60 * SECOND)
/* A capture that has not begun to record waits this long for the next daemon. A restart takes less than a second; after a crash the
 * service is started again within a few. */
#define RETURN_NS (20 * SECOND)
/* Steps before it. */
#define BEFORE_STEPS 64
/* When the agent leaves: how long the daemon gets to take what was recorded. */
#define TAKEN_NS (2 * SECOND)

static uint64_t cpu_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec + keeper_cpu();
}

const char *control_step_range(void)
{
	return control_run.step_range;
}

/* ---------------------------------------------------------------- the agent's thread: phases */

/* Moves from one of the phases in `from` (bit set) to `to`. Returns the phase it came from, or CONTROL_TICK where the
 * phase is another. A tick that is under way is waited for, but not for long: its thread may get no processor, or have jumped
 * out of it. */
static uint32_t move(uint32_t from, uint32_t to)
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

static void send_declined(uint64_t capture, uint32_t error, const char *sentence)
{
	struct message_declined m = MESSAGE_INIT(DECLINED, declined);
	m.capture = capture;
	m.error = error;
	message_text(m.sentence, sizeof m.sentence, sentence);
	link_send(&m, -1);
}

static void finish_now(uint32_t reason);

/* The collectors are switched on, in warm-up. */
static void record_begin(void)
{
	stamp_begin();
	int error = collectors_start();
	control_run.enable = sink_now() - control_run.warmup_started;
	if (error) {
		send_declined(control_run.capture, ERROR_FAILED, "the agent could not get memory for the capture");
		finish_now(REASON_AGENT);
		return;
	}
	/* The step thread may have ended it meanwhile. */
	uint32_t phase = SEGMENT_ENABLE;
	atomic_compare_exchange_strong(&control_run.segment.header->phase, &phase, SEGMENT_WARMUP);
	atomic_store_explicit(&control_ready, 1, memory_order_release);
	/* Nobody waits for this look. */
	thread_times_begin();
}

static uint64_t median_of_steps(uint64_t first, uint32_t n)
{
	/* Steps that only this capture counts are not on the status page. */
	return n && control_source == steps_source() ? steps_median(first + n - 1, n, NULL) : 0;
}

/* Waits for ranges that are open across the last boundary; returns when none is, or the time is up. */
static void linger(uint64_t from)
{
	while (sink_open_count() > 0 && sink_now() < from + LINGER_NS) {
		struct timespec nap = {0, 200000};
		nanosleep(&nap, NULL);
	}
}

static void cycle_begin(uint64_t capture, const struct segment *segment);

/* The segment of a cycle that will not be. */
static void drop_next(void)
{
	if (control_run.next.header)
		keeper_unmap(&control_run.next);
	control_run.next.header = NULL;
	atomic_store_explicit(&control_run.switch_at, 0, memory_order_relaxed);
}

/* What an ARM asks for; ranges or operators that are the steps are seen by their collectors alone. */
static void take_wishes(const struct message_arm *arm)
{
	control_run.wanted = arm->collectors;
	control_run.options = arm->options;
	control_run.stacks_rate = arm->stacks_rate;
	if (control_source == STEP_SOURCE_RANGE)
		control_run.wanted |= 1u << COLLECTOR_NVTX;
	if (control_source == STEP_SOURCE_OPERATOR)
		control_run.wanted |= 1u << COLLECTOR_TORCH;
}

/* `left`: cycles behind the one that begins. */
static void count_cycles(uint64_t cycle, uint64_t left)
{
	control_run.cycle = cycle;
	if (control_run.schedule.repeat)
		control_run.schedule.repeat = (uint32_t)(cycle + 1 + left);
}

static void send_switched(uint64_t capture, uint64_t before, uint64_t last_step, uint64_t first_step)
{
	struct message_switched m = MESSAGE_INIT(SWITCHED, switched);
	m.capture = capture;
	m.before = before;
	m.last_step = last_step;
	m.first_step = first_step;
	link_send(&m, -1);
}

/* The rest of a recording has begun. The step thread writes first_step before it leaves the boundary. */
static void tell_switched(uint32_t phase)
{
	if (!control_run.switch_untold || (phase != CONTROL_RECORD && phase != CONTROL_DRAIN) ||
	    !control_run.first_step)
		return;
	control_run.switch_untold = false;
	send_switched(control_run.capture, control_run.before_capture, control_run.last_step, control_run.first_step);
}

/* The next cycle's number and collectors; `switches`: it has others than the one that has ended. */
static void next_cycle(bool switches)
{
	uint64_t left = (uint64_t)control_run.schedule.repeat - control_run.cycle - (control_run.goes_on ? 1 : 2);
	if (!switches) {
		control_run.cycle++;
		return;
	}
	count_cycles(control_run.coming.cycle, left);
	take_wishes(&control_run.coming);
	control_run.before_capture = control_run.capture;
	control_run.switch_untold = control_run.goes_on;
	if (!control_run.goes_on)
		send_switched(control_run.next_capture, 0, 0, 0);
}

/* A capture without its steps is worth little. So steps that found no room wait until the daemon frees a chunk. */
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

/* CONTROL_DRAIN has been reached: everything from the last boundary to DONE. */
static void drain(void)
{
	uint64_t last = atomic_load_explicit(&control_end_time, memory_order_acquire);
	uint32_t reason = atomic_load(&control_end_reason);
	struct message_done done = MESSAGE_INIT(DONE, done);
	uint32_t stuck = 0;
	tell_switched(CONTROL_DRAIN);
	done.agent_bytes = control_run.collectors_on ? sink_bytes() : 0;
	if (control_run.collectors_on) {
		sink_sweep(last);
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
		next_cycle(switches);
		control_run.schedule.skip_first = 0;
		if (control_run.next.header) {
			struct segment segment = control_run.next;
			control_run.next.header = NULL;
			cycle_begin(control_run.next_capture, &segment);
		} else {
			move(1u << CONTROL_DRAIN, CONTROL_BETWEEN);
		}
		return;
	}
	if (switches)
		send_declined(control_run.next_capture, ERROR_CANCELLED, decline_over);
	drop_next();
	steps_watch(STEP_SOURCE_NONE, NULL, 0);
	steps_follow(NULL);
	atomic_store_explicit(&control_phase, CONTROL_IDLE, memory_order_release);
}

/* Some step sources are seen by collectors alone, so these are switched on now. A window of time begins when they are on. A warm-up that
 * would begin with the next step begins within this one. Batches are seen without collectors, and their phase may be far off. */
static bool is_on_at_once(void)
{
	if (control_source >= STEP_SOURCE_RANGE)
		return control_source != STEP_SOURCE_BATCH;
	if (control_run.at_step)
		return tick_warms_up(steps_count() + 2, steps_median(steps_count(), BEFORE_STEPS, NULL));
	return schedule_record_at(&control_run.schedule, 0) == 0;
}

/* A cycle's state; the phase is CONTROL_IDLE, CONTROL_BETWEEN or CONTROL_DRAIN, so the step thread only counts. */
static void cycle_begin(uint64_t capture, const struct segment *segment)
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
	uint32_t from = 1u << CONTROL_IDLE | 1u << CONTROL_BETWEEN | 1u << CONTROL_DRAIN;
	bool now = control_run.goes_on || is_on_at_once();
	control_run.warmup_started = sink_now();
	atomic_store(&control_run.segment.header->phase, now ? SEGMENT_ENABLE : SEGMENT_ARMED);
	steps_follow(tick_boundary);
	move(from, now ? CONTROL_WARMUP : CONTROL_ARMED);
	if (now)
		record_begin();
}

/* ---------------------------------------------------------------- messages */

/* The agent leaves the process: since when, 0 where it does not. */
static uint64_t leaving_since;

/* ARM_SWITCH. What records ends at a boundary and goes on as the new capture. Where collectors are not on yet they are armed anew, and
 * the capture stays: the step thread has nothing to do with them before they are. */
static void arm_switch(const struct message_arm *arm, struct segment *segment)
{
	uint32_t error;
	const char *why = decline_switch(arm, &error);
	if (why) {
		keeper_unmap(segment);
		send_declined(arm->capture, error, why);
		return;
	}
	if (control_run.next.header)
		send_declined(control_run.next_capture, ERROR_CANCELLED, decline_over);
	drop_next();
	if (atomic_load(&control_phase) == CONTROL_BETWEEN) {
		control_run.goes_on = false;
		count_cycles(arm->cycle, (uint64_t)control_run.schedule.repeat - control_run.cycle - 1);
		take_wishes(arm);
		send_switched(arm->capture, 0, 0, 0);
		cycle_begin(arm->capture, segment);
		return;
	}
	if (!control_run.collectors_on) {
		keeper_unmap(segment);
		collectors_disarm();
		collectors_forget();
		take_wishes(arm);
		send_switched(arm->capture, control_run.capture, 0, 0);
		collectors_arm();
		return;
	}
	control_run.next = *segment;
	control_run.next_capture = arm->capture;
	control_run.coming = *arm;
	uint64_t at = arm->switch_at > arm->switch_pass ? arm->switch_at - arm->switch_pass : 1;
	atomic_store_explicit(&control_run.switch_at, at, memory_order_release);
}

void control_arm(const struct message_arm *arm, const struct segment *given, int error)
{
	struct segment segment = *given;
	if (error < 0) {
		send_declined(arm->capture, ERROR_FAILED, room_sentence(error));
		return;
	}
	if (arm->cycle > 0 && arm->options & ARM_SWITCH) {
		arm_switch(arm, &segment);
		return;
	}
	if (arm->cycle > 0) {
		uint32_t phase = atomic_load(&control_phase);
		if (phase == CONTROL_IDLE || arm->trigger != control_run.trigger || control_run.next.header) {
			keeper_unmap(&segment);
			send_declined(arm->capture, ERROR_CANCELLED, decline_over);
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
		send_declined(arm->capture, reason, sentence);
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
	else if (control_run.batches)
		control_source = STEP_SOURCE_BATCH;
	else
		control_source = steps_source();
	take_wishes(arm);
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
	uint32_t phase = move(1u << CONTROL_ARMED | 1u << CONTROL_WARMUP, CONTROL_TICK);
	if (phase == CONTROL_TICK)
		return;
	/* As the step thread has it, which only counts meanwhile. */
	if (m->capture == control_run.capture && control_run.at_multiple && m->at_step)
		control_run.at_step = control_run.first_at_step = m->at_step;
	atomic_store_explicit(&control_phase, phase, memory_order_release);
}

/* Ends what is armed or recording; the rest happens in drain(). */
static void finish_now(uint32_t reason)
{
	control_run.cancelled_all = true;
	uint32_t any = 1u << CONTROL_ARMED | 1u << CONTROL_WARMUP | 1u << CONTROL_RECORD;
	/* The step thread may only count from here on; tick_end() is ours to call. */
	if (move(any, CONTROL_DRAIN) != CONTROL_TICK) {
		tick_end(sink_now(), reason);
		return;
	}
	if (atomic_load(&control_phase) == CONTROL_TICK && !tick_bury()) {
		control_run.end_wish = reason;
		control_run.end_at = sink_now() + TICK_PAUSE_NS;
		return;
	}
	if (move(1u << CONTROL_BETWEEN, CONTROL_IDLE) != CONTROL_TICK) {
		steps_watch(STEP_SOURCE_NONE, NULL, 0);
		steps_follow(NULL);
	}
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
	finish_now(reason ? reason : REASON_CANCELLED);
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
	*due = now + POPULATE_NS < *due ? now + POPULATE_NS : *due;
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
	/* The segment of a cycle that has not begun: the next daemon sends another. It knows of no switch that is to come, either. */
	drop_next();
	/* What records goes on within the chunks it has; a window of time keeps its own end. */
	if (!control_run.duration)
		control_run.record_deadline = sink_now() + ALONE_NS;
}

void control_daemon_found(void)
{
	uint32_t phase = atomic_load(&control_phase);
	/* This includes a capture that has just ended and is drained next: the daemon must get its segment before its end. */
	bool under_way = phase != CONTROL_IDLE && phase != CONTROL_BETWEEN;
	/* The capture under way first: once the daemon knows of it, the end of the cycle before does not make it ask for another one. */
	if (under_way)
		orphan_offer(&control_run.segment, control_run.capture, control_run.trigger, collectors_told());
	orphan_found();
	if (!control_run.duration)
		control_run.record_deadline = 0;
	/* Between two cycles it may not know of the schedule: it is not waited for much longer. */
	control_run.alone_until = phase == CONTROL_BETWEEN ? sink_now() + RETURN_NS : 0;
}

void control_abandon(void)
{
	uint32_t any = 1u << CONTROL_ARMED | 1u << CONTROL_WARMUP | 1u << CONTROL_RECORD;
	control_run.cancelled_all = true;
	/* A tick that is under way may still record one step more, and no other. */
	uint32_t phase = atomic_load(&control_phase);
	if (any & 1u << phase && atomic_compare_exchange_strong(&control_phase, &phase, CONTROL_BETWEEN)) {
		tick_end(sink_now(), REASON_AGENT);
		phase = CONTROL_DRAIN;
	}
	/* The daemon takes what is there. */
	if (phase == CONTROL_DRAIN)
		atomic_store_explicit(&control_run.segment.header->phase, SEGMENT_DONE, memory_order_release);
}

uint32_t control_orphans(void)
{
	uint32_t phase = atomic_load(&control_phase);
	/* All that control_daemon_found() offers. */
	return orphan_count() + (phase != CONTROL_IDLE && phase != CONTROL_BETWEEN);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A window of time begins as soon as its collectors are on and there is room. */
static void begin_window(uint64_t now)
{
	/* The phase first: without a capture there is no segment to look for room in. */
	if (control_source != STEP_SOURCE_DURATION || atomic_load(&control_phase) != CONTROL_WARMUP ||
	    !atomic_load(&control_ready) || !tick_has_room(now) ||
	    move(1u << CONTROL_WARMUP, CONTROL_TICK) != CONTROL_WARMUP)
		return;
	tick_begin(sink_now(), 0);
	control_run.record_deadline = control_run.step_start + control_run.duration;
	atomic_store_explicit(&control_phase, CONTROL_RECORD, memory_order_release);
}

/* An end that a tick under way has put off. These return when to look again, UINT64_MAX: not for this. */
static uint64_t end_wished(void)
{
	uint32_t reason = control_run.end_wish;
	if (!reason || atomic_load_explicit(&control_phase, memory_order_acquire) == CONTROL_IDLE)
		return UINT64_MAX;
	if (sink_now() >= control_run.end_at) {
		control_run.end_wish = 0;
		finish_now(reason);
	}
	return control_run.end_wish ? control_run.end_at : UINT64_MAX;
}

/* The end of a window of time, and of what records without a daemon. */
static uint64_t end_due(uint32_t phase)
{
	if (!control_run.record_deadline || (phase != CONTROL_RECORD && phase != CONTROL_TICK))
		return UINT64_MAX;
	uint64_t now = sink_now();
	bool window = control_source == STEP_SOURCE_DURATION, full = window && sink_limited();
	if (now < control_run.record_deadline && !full)
		return control_run.record_deadline;
	if (move(1u << CONTROL_RECORD, CONTROL_TICK) != CONTROL_RECORD)
		return now + TICK_PAUSE_NS;
	if (window)
		tick_write_step(now, 0);
	tick_end(now, full ? REASON_LIMIT : window ? REASON_NONE : REASON_DAEMON);
	control_run.cancelled_all = true;
	atomic_store_explicit(&control_phase, CONTROL_DRAIN, memory_order_release);
	return UINT64_MAX;
}

/* No daemon has come for long: a recording ends by itself, and nothing follows it. */
static uint64_t end_alone(uint32_t phase)
{
	if (!control_run.alone_until || phase == CONTROL_IDLE)
		return UINT64_MAX;
	if (sink_now() < control_run.alone_until)
		return control_run.alone_until;
	control_run.alone_until = 0;
	control_run.cancelled_all = true;
	if (phase != CONTROL_RECORD && phase != CONTROL_TICK)
		finish_now(REASON_DAEMON);
	return UINT64_MAX;
}

static void drain_all(void)
{
	while (atomic_load_explicit(&control_phase, memory_order_acquire) == CONTROL_DRAIN) {
		/* Draining takes system calls that recording does not. */
		if (filter_is_new())
			link_stop();
		drain();
		/* The next cycle may have to begin at once. */
		if (atomic_exchange_explicit(&control_want_start, 0, memory_order_acquire))
			record_begin();
	}
}

static uint64_t populate(uint32_t phase)
{
	int more = sink_populate();
	if (!more)
		return UINT64_MAX;
	/* A window of time begins as soon as there is room; nobody's boundary will remind us. */
	bool waits = phase == CONTROL_WARMUP && control_source == STEP_SOURCE_DURATION;
	uint64_t pause = more > 1 ? POPULATE_NS : control_run.populate_pause * 2;
	uint64_t most = phase == CONTROL_WARMUP ? 2 * POPULATE_NS : POPULATE_MOST_NS;
	pause = pause < POPULATE_NS ? POPULATE_NS : pause > most ? most : pause;
	control_run.populate_pause = pause;
	return sink_now() + (waits ? POPULATE_NS / 10 : pause);
}

/* What a recording needs all along. */
static uint64_t look_after(uint32_t phase)
{
	if (!control_run.collectors_on || (phase != CONTROL_WARMUP && phase != CONTROL_RECORD && phase != CONTROL_TICK))
		return UINT64_MAX;
	uint64_t due = sooner(populate(phase), collectors_poll(sink_now()));
	uint64_t now = sink_now();
	due = sooner(due, stamp_follow(now));
	if (now >= control_run.sweep_at) {
		sink_sweep(now);
		control_run.sweep_at = now + SWEEP_NS;
	}
	due = sooner(due, control_run.sweep_at);
	return phase == CONTROL_RECORD ? sooner(due, thread_times_work(sink_now(), atomic_load(&control_run.thread)))
				       : due;
}

uint64_t control_work(void)
{
	if (atomic_exchange_explicit(&control_want_start, 0, memory_order_acquire))
		record_begin();
	begin_window(sink_now());
	uint64_t due = end_wished();
	uint32_t phase = atomic_load_explicit(&control_phase, memory_order_acquire);
	tell_switched(phase);
	due = sooner(due, end_due(phase));
	due = sooner(due, end_alone(phase));
	drain_all();
	due = sooner(due, look_after(atomic_load_explicit(&control_phase, memory_order_acquire)));
	due = sooner(due, after_work(sink_now()));
	return sooner(due, orphan_work(sink_now()));
}

void control_in_child(void)
{
	steps_in_child();
	/* A signal handler that interrupted this thread in mid-event and forks: the child finishes that event, and its
	 * mapping is gone. */
	const struct segment *s = &control_run.segment;
	if (s->map && (sink_inside() || atomic_load(&control_phase) == CONTROL_TICK))
		/* NOLINTNEXTLINE(bugprone-unused-return-value): where it fails there is no other way */
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
