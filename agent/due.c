/* due.c - see due.h. */
#include "due.h"
#include "after.h"
#include "collectors.h"
#include "cycle.h"
#include "decline.h"
#include "core/filter.h"
#include "core/stamp.h"
#include "link.h"
#include "next.h"
#include "orphan.h"
#include "agent/sink/control.h"
#include "stacks/garbage_watch.h"
#include "steps/counter.h"
#include "thread_times.h"
#include "tick.h"

#include "../proto/errors.h"

/* While recording: how often newly provided chunks are mapped. */
#define POPULATE_NS (SECOND / 100)
/* The same, as long as the recording needs less than what is mapped. It is rarer, because many processes may be
 * recorded at a time. */
#define POPULATE_MOST_NS (8 * POPULATE_NS)
/* While recording: how often to look for threads that have ended. */
#define SWEEP_NS (SECOND / 10)

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
	    cycle_move(1u << CONTROL_WARMUP, CONTROL_TICK) != CONTROL_WARMUP)
		return;
	tick_begin(sink_now(), 0);
	control_run.record_deadline = control_run.step_start + control_run.duration;
	atomic_store_explicit(&control_phase, CONTROL_RECORD, memory_order_release);
}

/* Ends a capture of epochs whose begins cannot be seen. */
static void end_blind(void)
{
	if (!steps_is_blind() || atomic_load_explicit(&control_phase, memory_order_acquire) == CONTROL_IDLE)
		return;
	decline_send(control_run.capture, ERROR_UNAVAILABLE, decline_blind);
	cycle_finish(REASON_AGENT);
}

/* Tries again an end that was put off because of a tick. This and the next two return when to look again; UINT64_MAX:
 * not for this reason. */
static uint64_t end_wished(void)
{
	uint32_t reason = control_run.end_wish;
	if (!reason || atomic_load_explicit(&control_phase, memory_order_acquire) == CONTROL_IDLE)
		return UINT64_MAX;
	if (sink_now() >= control_run.end_at) {
		control_run.end_wish = 0;
		cycle_finish(reason);
	}
	return control_run.end_wish ? control_run.end_at : UINT64_MAX;
}

/* Ends a window of time, and a recording without a daemon, when its time is over. */
static uint64_t end_due(uint32_t phase)
{
	if (!control_run.record_deadline || (phase != CONTROL_RECORD && phase != CONTROL_TICK))
		return UINT64_MAX;
	uint64_t now = sink_now();
	bool window = control_source == STEP_SOURCE_DURATION, full = window && sink_limited();
	if (now < control_run.record_deadline && !full)
		return control_run.record_deadline;
	if (cycle_move(1u << CONTROL_RECORD, CONTROL_TICK) != CONTROL_RECORD)
		return now + CYCLE_TICK_PAUSE_NS;
	if (window)
		tick_write_step(now, 0);
	tick_end(now, full ? REASON_LIMIT : window ? REASON_NONE : REASON_DAEMON);
	control_run.cancelled_all = true;
	atomic_store_explicit(&control_phase, CONTROL_DRAIN, memory_order_release);
	return UINT64_MAX;
}

/* No daemon has come for long: gives up a capture that does not record yet. A recording ends by itself, and no cycle
 * follows it. */
static uint64_t end_alone(uint32_t phase)
{
	if (!control_run.alone_until || phase == CONTROL_IDLE)
		return UINT64_MAX;
	if (sink_now() < control_run.alone_until)
		return control_run.alone_until;
	control_run.alone_until = 0;
	control_run.cancelled_all = true;
	if (phase != CONTROL_RECORD && phase != CONTROL_TICK)
		cycle_finish(REASON_DAEMON);
	return UINT64_MAX;
}

static void drain_all(void)
{
	while (atomic_load_explicit(&control_phase, memory_order_acquire) == CONTROL_DRAIN) {
		/* Draining makes system calls that recording does not make. */
		if (filter_is_new())
			link_stop();
		cycle_drain();
		/* The next cycle may have to begin at once. */
		if (atomic_exchange_explicit(&control_want_start, 0, memory_order_acquire))
			cycle_switch_on();
	}
}

static uint64_t populate(uint32_t phase)
{
	int more = sink_populate();
	if (!more)
		return UINT64_MAX;
	/* A window of time begins as soon as there is room; no boundary wakes this thread for it. */
	bool waits = phase == CONTROL_WARMUP && control_source == STEP_SOURCE_DURATION;
	uint64_t pause = more > 1 ? POPULATE_NS : control_run.populate_pause * 2;
	uint64_t most = phase == CONTROL_WARMUP ? 2 * POPULATE_NS : POPULATE_MOST_NS;
	pause = pause < POPULATE_NS ? POPULATE_NS : pause > most ? most : pause;
	control_run.populate_pause = pause;
	return sink_now() + (waits ? POPULATE_NS / 10 : pause);
}

/* The work that a recording needs again and again. */
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
		if (cycle_stop_for_filter())
			return control_run.end_wish ? control_run.end_at : 0;
	}
	due = sooner(due, control_run.sweep_at);
	if (phase != CONTROL_RECORD)
		return due;
	due = sooner(due, garbage_watch_work(sink_now()));
	return sooner(due, thread_times_work(sink_now(), atomic_load(&control_run.thread)));
}

uint64_t due_work(void)
{
	if (atomic_exchange_explicit(&control_want_start, 0, memory_order_acquire))
		cycle_switch_on();
	begin_window(sink_now());
	end_blind();
	uint64_t due = end_wished();
	uint32_t phase = atomic_load_explicit(&control_phase, memory_order_acquire);
	next_tell(phase);
	due = sooner(due, end_due(phase));
	due = sooner(due, end_alone(phase));
	drain_all();
	due = sooner(due, look_after(atomic_load_explicit(&control_phase, memory_order_acquire)));
	due = sooner(due, after_work(sink_now()));
	return sooner(due, orphan_work(sink_now()));
}
