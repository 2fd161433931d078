/* tick.c - the part of the control that runs on the step thread: what a boundary means for the armed capture. It makes
 * system calls only at the capture's beginning and end. At the beginning the thread stands for a moment if a collector
 * asks for that (core/hold.h); else it waits for nothing. */
#include "tick.h"
#include "core/hold.h"
#include "core/life.h"
#include "agent/sink/control.h"
#include "stacks/garbage.h"
#include "steps/counter.h"

#include "../proto/message.h"

#include <sys/syscall.h>
#include <unistd.h>

/* How long a recording waits for room in the segment, from the beginning of its warm-up. */
#define ROOM_NS SECOND
/* How long collectors stay on while the loop is in another phase than the one to be recorded. */
#define AWAY_NS (5 * SECOND)
/* How long steps take now is the median of so many. */
#define RECENT_STEPS 5

_Atomic uint32_t control_phase;
struct run control_run;
_Atomic uint32_t control_source;
_Atomic uint64_t control_ticks, control_end_time;
_Atomic uint32_t control_ready, control_end_reason, control_want_start;

static struct event_step step_that_ends(uint64_t now, uint64_t number, uint32_t thread)
{
	struct garbage garbage = garbage_look(), since = garbage_since(&control_run.garbage, &garbage);
	control_run.garbage = garbage;
	return (struct event_step){
		.head = {sizeof(struct event_step), EVENT_STEP, 0, control_run.recorded + 1},
		.start = control_run.step_start,
		.duration = now > control_run.step_start ? now - control_run.step_start : 0,
		.number = number,
		.thread = thread,
		.source = (uint16_t)control_source,
		.collectors = (uint16_t)control_run.collector_bits,
		.collections_0 = (uint32_t)since.collections[0],
		.collections_1 = (uint32_t)since.collections[1],
		.collections_2 = (uint32_t)since.collections[2],
		.collections_known = since.known,
		.collected = since.collected,
	};
}

static void spare(const struct event_step *step)
{
	if (control_run.spares < sizeof control_run.spare / sizeof *control_run.spare)
		control_run.spare[control_run.spares++] = *step;
	else
		sink_lost(LOSS_NO_SPACE, EVENT_STEP);
}

static void step_has_ended(void)
{
	control_run.recorded++;
	atomic_store_explicit(&control_run.segment.header->steps_recorded, control_run.recorded, memory_order_release);
}

void tick_write_step(uint64_t now, uint64_t number)
{
	struct event_step step = step_that_ends(now, number, (uint32_t)syscall(SYS_gettid));
	int written = 0;
	struct sink_thread *t = sink_enter(EVENT_STEP);
	if (t) {
		written = sink_write_spared(t, &step);
		sink_leave(t);
	}
	if (!written)
		spare(&step);
	step_has_ended();
}

/* An epoch may be long, and the first one may not end before the recording ends. So the part of it that was recorded is
 * kept as a step. */
static void keep_cut_epoch(uint64_t now)
{
	uint32_t phase = atomic_load_explicit(&control_run.segment.header->phase, memory_order_relaxed);
	if (control_source != STEP_SOURCE_EPOCH || phase != SEGMENT_RECORD || control_run.recorded)
		return;
	struct event_step step = step_that_ends(now, control_run.first_step,
						atomic_load_explicit(&control_run.thread, memory_order_relaxed));
	spare(&step);
	step_has_ended();
}

void tick_begin(uint64_t now, uint64_t next_number)
{
	control_run.step_start = now;
	control_run.garbage = garbage_look();
	control_run.recorded = 0;
	control_run.first_step = next_number;
	control_run.others_at_start = steps_other_threads();
	if (control_source != STEP_SOURCE_DURATION)
		atomic_store_explicit(&control_run.thread, sink_own_tid(), memory_order_relaxed);
	sink_begin(now);
	atomic_store_explicit(&control_run.segment.header->phase, SEGMENT_RECORD, memory_order_release);
}

void tick_end(uint64_t now, uint32_t reason)
{
	keep_cut_epoch(now);
	sink_end(now);
	atomic_store_explicit(&control_end_time, now, memory_order_relaxed);
	atomic_store_explicit(&control_end_reason, reason, memory_order_relaxed);
	atomic_store_explicit(&control_run.segment.header->record_end, now, memory_order_relaxed);
	atomic_store_explicit(&control_run.segment.header->phase, SEGMENT_DRAIN, memory_order_release);
}

bool tick_warms_up(uint64_t next, uint64_t step)
{
	uint64_t lead = step ? control_run.lead / step : 0;
	uint64_t warmup = control_run.schedule.warmup;
	return next + (lead > warmup ? lead : warmup) >= control_run.at_step;
}

/* How long steps take now, in ns; 0: not known. A median, because a short step may follow a long one. */
static uint64_t usual_step(uint64_t number)
{
	return control_source == steps_source() ? steps_median(number, RECENT_STEPS, NULL) : 0;
}

/* What the schedule says about the step that begins now. `number` steps have ended; a step takes `step` ns. */
static enum schedule_state state_at(uint64_t position, uint64_t number, uint64_t step)
{
	if (control_run.goes_on && !control_run.at_step)
		return SCHEDULE_RECORD;
	if (control_run.at_step) {
		uint64_t next = number + 1;
		if (next >= control_run.at_step)
			return SCHEDULE_RECORD;
		return tick_warms_up(next, step) ? SCHEDULE_WARMUP : SCHEDULE_NONE;
	}
	/* Each cycle counts from its own base; a position past its end (the segment came late) falls into a later window. */
	struct schedule endless = control_run.schedule;
	endless.repeat = 0;
	return schedule_state(&endless, position, NULL);
}

bool tick_has_room(uint64_t now)
{
	return segment_has_room(&control_run.segment) || now > control_run.warmup_started + ROOM_NS;
}

uint32_t tick_next_at_step(uint64_t least)
{
	uint64_t before = control_run.at_step;
	/* Later cycles move by whole periods, so that all ranks of a job record the same steps. */
	uint64_t by = control_run.goes_on ? 1
		      : control_run.cycle ? schedule_period(&control_run.schedule)
					  : control_run.at_multiple;
	if (least > before)
		control_run.at_step += (least - before + by - 1) / by * by;
	return (uint32_t)(control_run.at_step - before);
}

static uint32_t tick_waiting(uint32_t phase, uint64_t tick, uint64_t now, uint64_t number)
{
	uint64_t position = tick - control_run.base - control_run.late;
	uint64_t step = control_run.at_step ? usual_step(number) : 0;
	enum schedule_state state = state_at(position, number, step);
	if (state >= SCHEDULE_RECORD) {
		bool missed = control_run.at_step && number + 1 > control_run.at_step;
		bool exact = control_run.at_step && !control_run.at_multiple && !control_run.goes_on;
		/* A user who names a step wants that step, even if its first events find little room. */
		bool room = exact || tick_has_room(now);
		if (!missed && room && atomic_load_explicit(&control_ready, memory_order_acquire)) {
			tick_begin(now, number + 1);
			return CONTROL_RECORD;
		}
		if (exact) {
			tick_end(now, REASON_MISSED);
			return CONTROL_DRAIN;
		}
		if (control_run.at_step)
			control_run.late += tick_next_at_step(number + 2);
		else
			control_run.late++;
	}
	atomic_fetch_add_explicit(&control_run.segment.header->steps_warmup, phase == CONTROL_WARMUP,
				  memory_order_relaxed);
	/* Without a warm-up step collectors are switched on one step early; otherwise the recording would begin
	 * late. */
	if (phase == CONTROL_ARMED &&
	    (state != SCHEDULE_NONE || state_at(position + 1, number + 1, step) >= SCHEDULE_RECORD)) {
		control_run.before_upto = number;
		control_run.warmup_started = now;
		atomic_store_explicit(&control_run.segment.header->phase, SEGMENT_ENABLE, memory_order_relaxed);
		atomic_store_explicit(&control_want_start, 1, memory_order_release);
		return CONTROL_WARMUP;
	}
	return phase;
}

static uint32_t tick_record_ends(uint64_t tick, uint64_t now, uint64_t number)
{
	control_run.base = tick;
	control_run.last_step = number;
	tick_end(now, REASON_NONE);
	return CONTROL_DRAIN;
}

static uint32_t tick_record(uint64_t tick, uint64_t now, uint64_t number)
{
	tick_write_step(now, number);
	if (control_run.recorded >= control_run.active)
		return tick_record_ends(tick, now, number);
	if (sink_limited()) {
		tick_end(now, REASON_LIMIT);
		return CONTROL_DRAIN;
	}
	uint64_t switch_at = atomic_load_explicit(&control_run.switch_at, memory_order_acquire);
	if (switch_at && number + 1 >= switch_at)
		return tick_record_ends(tick, now, number);
	control_run.step_start = now;
	sink_next_step(control_run.recorded + 1, now);
	return CONTROL_RECORD;
}

/* A batch of another phase has ended. A recording ends with the batch before. A capture that does not record yet waits
 * for its phase, but not for long once its collectors are on. */
static uint32_t tick_other_phase(uint32_t phase, uint64_t now)
{
	if (control_source == STEP_SOURCE_EPOCH && (phase != CONTROL_RECORD || !sink_limited()))
		return phase;
	if (control_source == STEP_SOURCE_EPOCH) {
		tick_end(now, REASON_LIMIT);
		return CONTROL_DRAIN;
	}
	if (phase == CONTROL_ARMED || (phase == CONTROL_WARMUP && now < control_run.warmup_started + AWAY_NS))
		return phase;
	tick_end(now, REASON_PHASE);
	return CONTROL_DRAIN;
}

static uint32_t tick_next(uint32_t phase, uint64_t tick, uint64_t now, uint64_t number)
{
	if (number == 0)
		return tick_other_phase(phase, now);
	return phase == CONTROL_RECORD ? tick_record(tick, now, number) : tick_waiting(phase, tick, now, number);
}

/* The thread in CONTROL_TICK, and its stack pointer there; 0: no thread, or the agent's. */
static _Atomic uint32_t tick_tid;
static _Atomic uintptr_t tick_stack;

static void tick_leave(uint32_t next)
{
	atomic_store_explicit(&tick_tid, 0, memory_order_relaxed);
	atomic_store_explicit(&control_phase, next, memory_order_release);
}

/* A thread has left a boundary in the middle. Nobody knows how far it had come, so the recording ends with what it
 * has. */
static void tick_give_up(uint64_t now)
{
	tick_end(now, REASON_LEFT);
	tick_leave(CONTROL_DRAIN);
}

/* A boundary comes while another is under way: from a signal handler, from another thread, or after a jump out of the
 * first one. Only in the last case the first boundary is over, and the recording is ended. */
static void tick_again(uint64_t now)
{
	if (atomic_load_explicit(&tick_tid, memory_order_relaxed) != sink_own_tid() ||
	    !sink_is_left(atomic_load_explicit(&tick_stack, memory_order_relaxed), stack_now()))
		return;
	tick_give_up(now);
	life_wake();
}

bool tick_bury(void)
{
	uint32_t tid = atomic_load_explicit(&tick_tid, memory_order_acquire);
	if (!tid || atomic_load_explicit(&control_phase, memory_order_acquire) != CONTROL_TICK || !sink_is_dead(tid))
		return false;
	tick_give_up(sink_now());
	return true;
}

static void at_boundary(uint32_t source, uint64_t now, uint64_t number)
{
	uint32_t phase = atomic_load_explicit(&control_phase, memory_order_acquire);
	if (phase == CONTROL_IDLE || source != control_source)
		return;
	if (__builtin_expect(phase == CONTROL_TICK, 0)) {
		tick_again(now);
		return;
	}
	uint64_t tick = atomic_fetch_add_explicit(&control_ticks, number != 0, memory_order_relaxed);
	uint32_t busy = 1u << CONTROL_ARMED | 1u << CONTROL_WARMUP | 1u << CONTROL_RECORD;
	if (!(busy & 1u << phase) ||
	    !atomic_compare_exchange_strong_explicit(&control_phase, &phase, CONTROL_TICK, memory_order_acq_rel,
						     memory_order_relaxed))
		return;
	atomic_store_explicit(&tick_stack, stack_now(), memory_order_relaxed);
	atomic_store_explicit(&tick_tid, sink_own_tid(), memory_order_release);
	uint32_t next = tick_next(phase, tick, now, number);
	/* The agent's thread switches the collectors on next. */
	if (next != phase && control_run.still && next == CONTROL_WARMUP)
		hold_begin();
	tick_leave(next);
	/* The wake-up comes last, so that the agent's thread finds the new phase. */
	if (next != phase)
		life_wake();
}

void tick_boundary(uint32_t source, uint64_t now, uint64_t number)
{
	at_boundary(source, now, number);
	if (__builtin_expect(hold_wanted(), 0))
		hold_stand();
}
