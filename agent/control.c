/* control.c - see control.h. One capture at a time; its cycles follow each other.
 *
 * Two threads meet here. The step thread ticks: it owns `run` while control_phase is CONTROL_TICK, which it enters by
 * compare-and-swap from the phase it found and leaves by a store. The agent's thread changes the phase by compare-and-swap
 * only, and waits where it finds CONTROL_TICK; so the step thread never waits for anybody. */
#include "control.h"
#include "collector.h"
#include "facts.h"
#include "life.h"
#include "orphan.h"
#include "sink_control.h"
#include "steps/counter.h"

#include "../proto/errors.h"
#include "../proto/schedule.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000ull

/* How long the last open ranges get to close after the last boundary; only where there are any. */
#define LINGER_NS (SECOND / 4)
/* How long hooks that are under way get to leave. */
#define LEAVE_NS (SECOND / 20)
/* How long steps that found no room wait for some. */
#define SPARE_NS (2 * SECOND)
/* Collectors' own drain. */
#define DRAIN_NS (SECOND)
/* Chunks that must be there before a recording begins, and how long that is waited for. */
#define ROOM_CHUNKS 256
#define ROOM_NS SECOND
/* While recording: how often newly provided chunks are mapped. */
#define POPULATE_NS (SECOND / 100)
/* A recording whose daemon is gone ends after this, if its steps have not ended it before: nobody else would. */
#define ALONE_NS (60 * SECOND)
/* Steps after a capture that are watched, and how long at most. */
#define AFTER_STEPS 8
#define AFTER_NS (20 * SECOND)
/* Steps before it. */
#define BEFORE_STEPS 64

_Atomic uint32_t control_phase;

static const struct collector_ops *const collectors[] = {&collector_nvtx, &collector_torch};
#define COLLECTORS (sizeof collectors / sizeof *collectors)

static struct run {
	uint64_t capture, trigger, cycle;
	struct schedule schedule;
	uint64_t at_step, duration, max_events;
	uint32_t wanted; /* bit set of enum collector */
	char step_range[128], step_operator[128];
	uint32_t source; /* enum step_source that ticks */
	struct segment segment;
	struct segment next; /* of the next cycle; header NULL = has not come */
	uint64_t next_capture;
	uint32_t generation;

	/* The step thread's, inside CONTROL_TICK. */
	uint64_t base;       /* tick at which this cycle's schedule began */
	uint32_t late;       /* steps that warm-up took longer than asked */
	uint32_t recorded;   /* steps */
	uint64_t first_step; /* number */
	uint64_t step_start;
	uint64_t before_upto; /* number of the last step before warm-up */
	uint64_t others_at_start;
	/* Steps that found no room; the agent's thread writes them at the end. */
	struct event_step spare[32];
	uint32_t spares;

	/* The agent's thread's. */
	bool collectors_on, on[COLLECTORS], armed[COLLECTORS];
	uint32_t collector_bits;
	uint64_t warmup_started, enable, record_deadline, record_end;
	uint64_t cpu_at_start;
	bool cancelled_all; /* no further cycle */
} run;

static _Atomic uint64_t ticks;       /* boundaries since arming; the step thread adds */
static _Atomic uint32_t ready;       /* collectors are on: the next boundary may begin the recording */
static _Atomic uint32_t end_reason;  /* enum cancel_reason of the recording that ended */
static _Atomic uint32_t want_start;  /* warm-up has begun: switch collectors on */
static _Atomic uint64_t end_time;    /* CLOCK_MONOTONIC ns of the end of the recording */

static struct after {
	uint64_t capture, from, until, at;
} after;

static uint64_t cpu_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

const char *control_step_range(void)
{
	return run.step_range;
}

/* ---------------------------------------------------------------- the step thread */

static void write_step(uint64_t now, uint64_t number)
{
	struct event_step step = {
		.head = {sizeof step, EVENT_STEP, 0, run.recorded + 1},
		.start = run.step_start,
		.duration = now > run.step_start ? now - run.step_start : 0,
		.number = number,
		.thread = (uint32_t)syscall(SYS_gettid),
		.source = (uint16_t)run.source,
		.collectors = (uint16_t)run.collector_bits,
	};
	int written = 0;
	struct sink_thread *t = sink_enter(EVENT_STEP);
	if (t) {
		written = sink_write_spared(t, &step);
		sink_leave(t);
	}
	if (!written) {
		if (run.spares < sizeof run.spare / sizeof *run.spare)
			run.spare[run.spares++] = step;
		else
			sink_lost(LOSS_NO_SPACE, EVENT_STEP);
	}
	run.recorded++;
	atomic_store_explicit(&run.segment.header->steps_recorded, run.recorded, memory_order_release);
}

static void begin(uint64_t now, uint64_t next_number)
{
	run.step_start = now;
	run.recorded = 0;
	run.first_step = next_number;
	run.others_at_start = steps_other_threads();
	sink_begin(now);
	atomic_store_explicit(&run.segment.header->phase, SEGMENT_RECORD, memory_order_release);
}

static void end(uint64_t now, uint32_t reason)
{
	sink_end();
	atomic_store_explicit(&end_time, now, memory_order_relaxed);
	atomic_store_explicit(&end_reason, reason, memory_order_relaxed);
	atomic_store_explicit(&run.segment.header->record_end, now, memory_order_relaxed);
	atomic_store_explicit(&run.segment.header->phase, SEGMENT_DRAIN, memory_order_release);
}

/* What the schedule says of the step that now begins, `number` steps having ended. */
static enum schedule_state state_at(uint64_t position, uint64_t number)
{
	if (run.at_step) {
		uint64_t next = number + 1;
		if (next >= run.at_step)
			return SCHEDULE_RECORD;
		return next + run.schedule.warmup >= run.at_step ? SCHEDULE_WARMUP : SCHEDULE_NONE;
	}
	/* Each cycle counts from its own base; a position past its end (the segment came late) falls into a later window. */
	struct schedule endless = run.schedule;
	endless.repeat = 0;
	return schedule_state(&endless, position, NULL);
}

/* The daemon has had time to put memory behind the segment, or has had enough of it. */
static bool has_room(uint64_t now)
{
	uint32_t want = run.segment.chunk_count < ROOM_CHUNKS ? run.segment.chunk_count : ROOM_CHUNKS;
	return atomic_load_explicit(&run.segment.header->chunks_ready, memory_order_relaxed) >= want ||
	       now > run.warmup_started + ROOM_NS;
}

static uint32_t tick_waiting(uint32_t phase, uint64_t tick, uint64_t now, uint64_t number)
{
	uint64_t position = tick - run.base - run.late;
	enum schedule_state state = state_at(position, number);
	if (state >= SCHEDULE_RECORD) {
		bool missed = run.at_step && number + 1 > run.at_step;
		if (!missed && atomic_load_explicit(&ready, memory_order_acquire) && has_room(now)) {
			begin(now, number + 1);
			return CONTROL_RECORD;
		}
		if (run.at_step) {
			end(now, REASON_MISSED);
			return CONTROL_DRAIN;
		}
		run.late++;
	}
	atomic_fetch_add_explicit(&run.segment.header->steps_warmup, phase == CONTROL_WARMUP, memory_order_relaxed);
	/* Without a warm-up step collectors go on one step early, or they would be late. */
	if (phase == CONTROL_ARMED && (state != SCHEDULE_NONE || state_at(position + 1, number + 1) >= SCHEDULE_RECORD)) {
		run.before_upto = number;
		atomic_store_explicit(&run.segment.header->phase, SEGMENT_WARMUP, memory_order_relaxed);
		atomic_store_explicit(&want_start, 1, memory_order_release);
		return CONTROL_WARMUP;
	}
	return phase;
}

static uint32_t tick_record(uint64_t tick, uint64_t now, uint64_t number)
{
	write_step(now, number);
	if (run.recorded >= run.schedule.active) {
		run.base = tick;
		end(now, REASON_NONE);
		return CONTROL_DRAIN;
	}
	run.step_start = now;
	sink_next_step(run.recorded + 1);
	return CONTROL_RECORD;
}

void control_tick(uint32_t source, uint64_t now, uint64_t number)
{
	uint32_t phase = atomic_load_explicit(&control_phase, memory_order_acquire);
	if (phase == CONTROL_IDLE || source != run.source)
		return;
	uint64_t tick = atomic_fetch_add_explicit(&ticks, 1, memory_order_relaxed);
	uint32_t busy = 1u << CONTROL_ARMED | 1u << CONTROL_WARMUP | 1u << CONTROL_RECORD;
	if (!(busy & 1u << phase) ||
	    !atomic_compare_exchange_strong_explicit(&control_phase, &phase, CONTROL_TICK, memory_order_acq_rel,
						     memory_order_relaxed))
		return;
	uint32_t next =
		phase == CONTROL_RECORD ? tick_record(tick, now, number) : tick_waiting(phase, tick, now, number);
	atomic_store_explicit(&control_phase, next, memory_order_release);
	/* Only now: the agent's thread must find the phase it is woken for. */
	if (next != phase && next != CONTROL_RECORD)
		life_wake();
}

/* ---------------------------------------------------------------- the agent's thread: phases */

/* Moves from one of the phases in `from` (bit set) to `to`. Returns the phase it came from, or CONTROL_TICK where the
 * phase is another. Waits for a tick that is under way: the step thread is running, or will be again. */
static uint32_t move(uint32_t from, uint32_t to)
{
	for (;;) {
		uint32_t phase = atomic_load_explicit(&control_phase, memory_order_acquire);
		if (phase == CONTROL_TICK) {
			struct timespec nap = {0, 20000};
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

static void send_collector(uint64_t capture, uint32_t bit, uint32_t available, uint64_t enable, const char *sentence)
{
	struct message_collector m = MESSAGE_INIT(COLLECTOR, collector);
	m.capture = capture;
	m.collector = bit;
	m.available = available;
	m.enable = enable;
	message_text(m.sentence, sizeof m.sentence, sentence);
	link_send(&m, -1);
}

static bool is_wanted(const struct collector_ops *c)
{
	uint32_t bits = 1u << c->bit;
	if (c->bit == COLLECTOR_TORCH)
		bits |= 1u << COLLECTOR_SHAPES;
	return run.wanted & bits;
}

/* What became of collectors[i] in this capture. Shapes are the torch collector's, and a collector of their own to users. */
static void tell(size_t i, uint32_t ran, uint64_t enable, const char *sentence)
{
	send_collector(run.capture, collectors[i]->bit, ran, enable, sentence);
	if (collectors[i]->bit == COLLECTOR_TORCH && run.wanted & 1u << COLLECTOR_SHAPES)
		send_collector(run.capture, COLLECTOR_SHAPES, ran, 0, sentence);
}

static struct collector_request request(void)
{
	return (struct collector_request){run.wanted, run.generation, run.step_range, run.step_operator};
}

/* After ARMED has been sent: what may take long, so that it does not fall into a step that somebody waits for. */
static void collectors_arm(void)
{
	struct collector_request r = request();
	for (size_t i = 0; i < COLLECTORS; i++) {
		char sentence[248] = "";
		run.armed[i] = false;
		if (!is_wanted(collectors[i]))
			continue;
		if (collectors[i]->arm && collectors[i]->arm(&r, sentence, sizeof sentence) < 0)
			tell(i, 0, 0, sentence);
		else
			run.armed[i] = true;
	}
}

static void collectors_start(void)
{
	struct collector_request r = request();
	int error = sink_prepare(&run.segment, run.generation, run.max_events);
	uint32_t bits = 1u << COLLECTOR_STEPS;
	if (error == 0) {
		sink_populate();
		for (size_t i = 0; i < COLLECTORS; i++) {
			char sentence[248] = "";
			uint64_t from = sink_now();
			if (!run.armed[i])
				continue;
			if (collectors[i]->start(&r, sentence, sizeof sentence) < 0) {
				tell(i, 0, 0, sentence);
				continue;
			}
			run.on[i] = true;
			bits |= 1u << collectors[i]->bit;
			if (collectors[i]->bit == COLLECTOR_TORCH)
				bits |= run.wanted & 1u << COLLECTOR_SHAPES;
			tell(i, 1, sink_now() - from, sentence);
		}
		send_collector(run.capture, COLLECTOR_STEPS, 1, 0, step_source_sentence(run.source));
	} else {
		send_declined(run.capture, ERROR_FAILED, "the agent could not get memory for the capture");
	}
	run.collector_bits = bits;
	run.collectors_on = true;
	run.enable = sink_now() - run.warmup_started;
	atomic_store_explicit(&run.segment.header->collectors, bits, memory_order_relaxed);
	if (error == 0)
		atomic_store_explicit(&ready, 1, memory_order_release);
	else if (move(1u << CONTROL_WARMUP | 1u << CONTROL_ARMED, CONTROL_DRAIN) != CONTROL_TICK)
		end(sink_now(), REASON_AGENT);
}

static void collectors_stop(uint64_t now)
{
	for (size_t i = COLLECTORS; i-- > 0;)
		if (run.on[i])
			collectors[i]->stop();
	sink_drain();
	for (size_t i = 0; i < COLLECTORS; i++)
		if (run.on[i] && collectors[i]->drain)
			collectors[i]->drain(now + DRAIN_NS);
}

static void collectors_disarm(void)
{
	for (size_t i = 0; i < COLLECTORS; i++) {
		if (run.armed[i] && collectors[i]->disarm)
			collectors[i]->disarm();
		run.on[i] = run.armed[i] = false;
	}
	run.collectors_on = false;
}

static uint64_t median_of_steps(uint64_t first, uint32_t n)
{
	return n && run.source != STEP_SOURCE_DURATION ? steps_median(first + n - 1, n, NULL) : 0;
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

/* Without its steps a capture is worth little: they wait for the daemon to free a chunk. */
static void write_spares(void)
{
	uint64_t deadline = sink_now() + (orphan_connected() ? SPARE_NS : 0);
	struct sink_thread *own = sink_own();
	for (uint32_t i = 0; own && i < run.spares; i++) {
		while (!sink_write_spared(own, &run.spare[i])) {
			if (sink_now() >= deadline) {
				sink_lost(LOSS_NO_SPACE, EVENT_STEP);
				break;
			}
			struct timespec nap = {0, 1000000};
			nanosleep(&nap, NULL);
		}
	}
}

/* CONTROL_DRAIN has been reached: everything from the last boundary to DONE. */
static void drain(void)
{
	uint64_t last = atomic_load_explicit(&end_time, memory_order_acquire);
	uint32_t reason = atomic_load(&end_reason);
	struct message_done done = MESSAGE_INIT(DONE, done);
	uint32_t stuck = 0;
	done.agent_bytes = run.collectors_on ? sink_bytes() : 0;
	if (run.collectors_on) {
		if (reason != REASON_EXIT)
			linger(sink_now());
		collectors_stop(sink_now());
		write_spares();
		stuck = sink_finish(last, sink_now() + LEAVE_NS);
		sink_release();
		collectors_disarm();
	} else {
		collectors_disarm();
	}
	atomic_store_explicit(&run.segment.header->phase, SEGMENT_DONE, memory_order_release);
	done.capture = run.capture;
	done.reason = reason;
	done.steps = run.recorded;
	done.first_step = run.recorded ? run.first_step : 0;
	done.step_before = steps_median(run.before_upto, BEFORE_STEPS, NULL);
	done.step_during = median_of_steps(run.first_step, run.recorded);
	done.enable = run.enable;
	done.drain = sink_now() - last;
	done.agent_cpu = cpu_now() - run.cpu_at_start;
	done.late = run.late;
	done.step_source = run.source;
	done.other_thread_steps = run.recorded ? steps_other_threads() - run.others_at_start : 0;
	bool more = reason == REASON_NONE && !run.cancelled_all &&
		    (run.schedule.repeat == 0 || run.cycle + 1 < run.schedule.repeat) && run.duration == 0 && !run.at_step;
	orphan_done(&run.segment, run.trigger, &done, stuck > 0);
	memset(&run.segment, 0, sizeof run.segment);
	if (run.duration == 0 && run.recorded)
		after = (struct after){run.capture, steps_count(), sink_now() + AFTER_NS, 0};
	if (more && orphan_connected()) {
		run.cycle++;
		run.schedule.skip_first = 0;
		if (run.next.header) {
			struct segment segment = run.next;
			run.next.header = NULL;
			cycle_begin(run.next_capture, &segment);
		} else {
			move(1u << CONTROL_DRAIN, CONTROL_BETWEEN);
		}
		return;
	}
	if (run.next.header) {
		segment_deinit(&run.next);
		run.next.header = NULL;
	}
	steps_watch(STEP_SOURCE_NONE);
	atomic_store_explicit(&control_phase, CONTROL_IDLE, memory_order_release);
}

/* A cycle's state; the phase is CONTROL_IDLE, CONTROL_BETWEEN or CONTROL_DRAIN, so the step thread only counts. */
static void cycle_begin(uint64_t capture, const struct segment *segment)
{
	static uint32_t generation;
	run.segment = *segment;
	run.capture = capture;
	run.generation = ++generation ? generation : ++generation;
	run.late = run.recorded = run.spares = 0;
	run.first_step = run.enable = run.record_deadline = 0;
	run.cpu_at_start = cpu_now();
	run.before_upto = steps_count();
	atomic_store(&ready, 0);
	atomic_store(&want_start, 0);
	atomic_store(&end_reason, REASON_NONE);
	collectors_arm();
	uint32_t from = 1u << CONTROL_IDLE | 1u << CONTROL_BETWEEN | 1u << CONTROL_DRAIN;
	/* Sources that only the collectors see must be on to be counted at all, and a window of time begins when they are. */
	bool now = run.source >= STEP_SOURCE_RANGE ||
		   (!run.at_step && schedule_record_at(&run.schedule, 0) == 0);
	run.warmup_started = sink_now();
	atomic_store(&run.segment.header->phase, now ? SEGMENT_WARMUP : SEGMENT_ARMED);
	move(from, now ? CONTROL_WARMUP : CONTROL_ARMED);
	if (now)
		collectors_start();
}

/* ---------------------------------------------------------------- messages */

static bool decline_reason(const struct message_arm *arm, uint32_t *ret_error, const char **ret_sentence)
{
	struct schedule s = {arm->skip_first, arm->wait, arm->warmup, arm->active, arm->repeat};
	if (atomic_load(&control_phase) != CONTROL_IDLE) {
		*ret_error = ERROR_BUSY;
		*ret_sentence = "it is being recorded already";
		return true;
	}
	*ret_sentence = arm->duration ? NULL : schedule_check(&s);
	if (*ret_sentence) {
		*ret_error = ERROR_USAGE;
		return true;
	}
	if (arm->duration || *arm->step_range || *arm->step_operator)
		return false;
	if (steps_source() == STEP_SOURCE_NONE) {
		*ret_error = ERROR_NO_STEPS;
		*ret_sentence = "it has shown no steps yet";
		return true;
	}
	if (arm->at_step && steps_count() + 1 + arm->warmup >= arm->at_step) {
		*ret_error = ERROR_MISSED_STEP;
		*ret_sentence = "that step has passed, or begins too soon to warm up before it; name a later one";
		return true;
	}
	return false;
}

void control_arm(const struct message_arm *arm, int segment_fd)
{
	struct segment segment;
	int r = segment_map(&segment, segment_fd);
	if (r < 0) {
		close(segment_fd);
		send_declined(arm->capture, ERROR_FAILED, "the agent could not map the segment");
		return;
	}
	if (arm->cycle > 0) {
		uint32_t phase = atomic_load(&control_phase);
		if (phase == CONTROL_IDLE || arm->trigger != run.trigger || run.next.header) {
			segment_deinit(&segment);
			send_declined(arm->capture, ERROR_CANCELLED, "the schedule has ended");
			return;
		}
		if (phase == CONTROL_BETWEEN) {
			cycle_begin(arm->capture, &segment);
		} else {
			run.next = segment;
			run.next_capture = arm->capture;
		}
		return;
	}
	uint32_t error;
	const char *sentence;
	if (decline_reason(arm, &error, &sentence)) {
		segment_deinit(&segment);
		send_declined(arm->capture, error, sentence);
		return;
	}
	memset(&run, 0, sizeof run);
	atomic_store(&ticks, 0);
	run.trigger = arm->trigger;
	run.schedule = (struct schedule){arm->skip_first, arm->wait, arm->warmup, arm->active, arm->repeat};
	run.at_step = arm->at_step;
	run.duration = arm->duration;
	run.max_events = arm->max_events;
	run.wanted = arm->collectors;
	memcpy(run.step_range, arm->step_range, sizeof run.step_range);
	memcpy(run.step_operator, arm->step_operator, sizeof run.step_operator);
	if (run.duration)
		run.source = STEP_SOURCE_DURATION;
	else if (*run.step_range)
		run.source = STEP_SOURCE_RANGE;
	else if (*run.step_operator)
		run.source = STEP_SOURCE_OPERATOR;
	else
		run.source = steps_source();
	if (run.source == STEP_SOURCE_RANGE)
		run.wanted |= 1u << COLLECTOR_NVTX;
	if (run.source == STEP_SOURCE_OPERATOR)
		run.wanted |= 1u << COLLECTOR_TORCH;
	steps_watch(*run.step_range || *run.step_operator ? run.source : STEP_SOURCE_NONE);
	struct message_armed armed = MESSAGE_INIT(ARMED, armed);
	armed.capture = arm->capture;
	armed.step = steps_count();
	armed.step_source = run.source;
	link_send(&armed, -1);
	cycle_begin(arm->capture, &segment);
}

/* Ends what is armed or recording; the rest happens in drain(). */
static void finish_now(uint32_t reason)
{
	run.cancelled_all = true;
	uint32_t any = 1u << CONTROL_ARMED | 1u << CONTROL_WARMUP | 1u << CONTROL_RECORD;
	/* The step thread may only count from here on; end() is ours to call. */
	if (move(any, CONTROL_DRAIN) != CONTROL_TICK) {
		end(sink_now(), reason);
		return;
	}
	if (move(1u << CONTROL_BETWEEN, CONTROL_IDLE) != CONTROL_TICK)
		steps_watch(STEP_SOURCE_NONE);
}

void control_cancel(uint64_t capture, uint32_t reason)
{
	if (atomic_load(&control_phase) == CONTROL_IDLE)
		return;
	/* Between two cycles the daemon may name the one that has just ended, or the next. */
	if (capture && capture != run.capture && !(run.next.header && capture == run.next_capture) &&
	    atomic_load(&control_phase) != CONTROL_BETWEEN)
		return;
	finish_now(reason ? reason : REASON_CANCELLED);
}

void control_probe(void)
{
	char sentence[248];
	uint32_t source = steps_source();
	sentence[0] = 0;
	message_text(sentence, sizeof sentence,
		     source != STEP_SOURCE_NONE ? step_source_sentence(source)
						: "no steps seen yet: neither profd_step() nor torch's Optimizer.step has been called; use "
						  "--step-range, --step-op or --duration");
	send_collector(0, COLLECTOR_STEPS, source != STEP_SOURCE_NONE, 0, sentence);
	for (size_t i = 0; i < COLLECTORS; i++) {
		sentence[0] = 0;
		int can = collectors[i]->probe(sentence, sizeof sentence);
		send_collector(0, collectors[i]->bit, can == 1, 0, sentence);
	}
	send_collector(0, COLLECTOR_STEPS, 2, 0, "");
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
	run.cancelled_all = true;
	/* What has not begun to record has nothing to save; what records goes on within the chunks it has. */
	if (phase != CONTROL_RECORD && phase != CONTROL_TICK)
		finish_now(REASON_DAEMON);
	run.record_deadline = sink_now() + ALONE_NS;
}

void control_daemon_found(void)
{
	uint32_t phase = atomic_load(&control_phase);
	bool recording = phase == CONTROL_RECORD || phase == CONTROL_TICK;
	orphan_offer(recording ? &run.segment : NULL, run.capture, run.trigger);
	if (recording && !run.duration)
		run.record_deadline = 0;
}

uint32_t control_orphans(void)
{
	uint32_t phase = atomic_load(&control_phase);
	return orphan_count() + (phase == CONTROL_RECORD || phase == CONTROL_TICK);
}

static uint64_t watch_after(uint64_t now)
{
	if (!after.capture)
		return UINT64_MAX;
	uint64_t steps = steps_count() - after.from;
	if (steps <= AFTER_STEPS && now < after.until) {
		/* Look again when enough steps should have passed, not more often than that. */
		uint64_t median = steps_median(steps_count(), AFTER_STEPS, NULL);
		uint64_t nap = median ? median * (AFTER_STEPS + 1 - steps) + SECOND / 100 : SECOND;
		return nap < after.until - now ? now + nap : after.until;
	}
	struct message_after m = MESSAGE_INIT(AFTER, after);
	m.capture = after.capture;
	/* The first step after the capture still holds the drain. */
	uint32_t most = steps > 1 ? (uint32_t)(steps - 1 < BEFORE_STEPS ? steps - 1 : BEFORE_STEPS) : 0;
	m.step_after = most ? steps_median(steps_count(), most, &m.steps) : 0;
	if (m.step_after)
		link_send(&m, -1);
	after.capture = 0;
	return UINT64_MAX;
}

uint64_t control_work(uint64_t now)
{
	uint64_t due = UINT64_MAX;
	if (atomic_exchange_explicit(&want_start, 0, memory_order_acquire)) {
		run.warmup_started = now;
		collectors_start();
	}
	if (run.source == STEP_SOURCE_DURATION && atomic_load(&ready) &&
	    move(1u << CONTROL_WARMUP, CONTROL_TICK) == CONTROL_WARMUP) {
		begin(sink_now(), 0);
		run.record_deadline = run.step_start + run.duration;
		atomic_store_explicit(&control_phase, CONTROL_RECORD, memory_order_release);
	}
	uint32_t phase = atomic_load_explicit(&control_phase, memory_order_acquire);
	if (run.record_deadline && (phase == CONTROL_RECORD || phase == CONTROL_TICK)) {
		now = sink_now();
		if (now >= run.record_deadline) {
			if (move(1u << CONTROL_RECORD, CONTROL_TICK) == CONTROL_RECORD) {
				if (run.source == STEP_SOURCE_DURATION)
					write_step(now, 0);
				end(now, run.source == STEP_SOURCE_DURATION ? REASON_NONE : REASON_DAEMON);
				run.cancelled_all = true;
				atomic_store_explicit(&control_phase, CONTROL_DRAIN, memory_order_release);
			}
		} else {
			due = run.record_deadline;
		}
	}
	while (atomic_load_explicit(&control_phase, memory_order_acquire) == CONTROL_DRAIN) {
		drain();
		/* The next cycle may have to begin at once. */
		if (atomic_exchange_explicit(&want_start, 0, memory_order_acquire)) {
			run.warmup_started = sink_now();
			collectors_start();
		}
	}
	phase = atomic_load_explicit(&control_phase, memory_order_acquire);
	if (run.collectors_on && (phase == CONTROL_WARMUP || phase == CONTROL_RECORD || phase == CONTROL_TICK) &&
	    sink_populate()) {
		uint64_t next = sink_now() + POPULATE_NS;
		due = next < due ? next : due;
	}
	uint64_t other = watch_after(sink_now());
	due = other < due ? other : due;
	other = orphan_work(sink_now());
	return other < due ? other : due;
}

void control_exit(uint64_t wait)
{
	if (!life_alive() || atomic_load(&control_phase) == CONTROL_IDLE)
		return;
	uint64_t deadline = sink_now() + wait;
	run.cancelled_all = true;
	for (;;) {
		uint32_t phase = atomic_load(&control_phase);
		if (phase == CONTROL_IDLE || sink_now() >= deadline)
			return;
		uint32_t any = 1u << CONTROL_ARMED | 1u << CONTROL_WARMUP | 1u << CONTROL_RECORD;
		if (any & 1u << phase &&
		    atomic_compare_exchange_strong(&control_phase, &phase, CONTROL_TICK)) {
			end(sink_now(), REASON_EXIT);
			atomic_store(&control_phase, CONTROL_DRAIN);
			life_wake();
		}
		struct timespec nap = {0, 500000};
		nanosleep(&nap, NULL);
	}
}
