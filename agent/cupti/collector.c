/* collector.c - the functions of the cupti collector: what the agent's thread does, and how long it waits for CUPTI.
 * The guard (guard.h) makes all calls into CUPTI and the driver. If a call does not return in time, we give the session
 * up, and the job and the other collectors go on. */
#include "../core/collector.h"

#include "api.h"
#include "buffers.h"
#include "clock.h"
#include "deliver.h"
#include "guard.h"
#include "kinds.h"
#include "session.h"

#include "../../proto/message.h"
#include "../core/life.h"
#include "agent/sink/sink.h"

#include <errno.h>
#include <string.h>

#define MILLISECOND 1000000ull
/* The first call may take long: CUPTI may set itself up in every context of the process. */
#define ASK_NS (5000 * MILLISECOND)
/* The same where somebody waits for the answer. */
#define ASK_FIRST_NS (400 * MILLISECOND)
#define START_NS (10000 * MILLISECOND)
/* A flush during the recording that takes longer counts as hung. */
#define TICK_NS (3000 * MILLISECOND)
/* How often complete records are asked for, so that buffers stay small and the daemon gets the records early. */
#define FLUSH_NS (100 * MILLISECOND)
/* How often the collector is polled during the recording. */
#define POLL_NS (10 * MILLISECOND)
/* How long a call may take in any case, and how much longer if it brings records. */
#define CALL_NS (100 * MILLISECOND)
#define PATIENCE_NS (5000 * MILLISECOND)
#define NAP_LEAST (MILLISECOND / 2)
#define NAP_MOST (10 * MILLISECOND)

static int yes = 1;

static int on;	     /* kinds are enabled, or may be */
static int hung;     /* a call did not return; CUPTI is not called again in this capture */
static int stopping; /* the job that switches off is posted */
static int forced;   /* records of unfinished operations were asked for */
static uint64_t flush_at;
static uint64_t drain_ns;

/* ---------------------------------------------------------------- the guard's jobs */

static void give_up(void)
{
	if (guard_abandon(session_cleanup)) {
		hung = 1;
		life_debug("a call into CUPTI does not return", "");
	}
}

/* As guard_wait, but waits longer while buffers come in, because then the call is slow and not stuck. */
static int wait_for_guard(uint64_t patience, int *ret_result)
{
	uint64_t received = session_received(), more = PATIENCE_NS;
	int error;
	while ((error = guard_wait(patience, ret_result)) == -ETIMEDOUT && more) {
		uint64_t now = session_received();
		if (now == received)
			break;
		received = now;
		patience = CALL_NS;
		more -= CALL_NS;
	}
	return error;
}
_Static_assert(PATIENCE_NS % CALL_NS == 0, "it counts down to 0");

/* Runs a job to its end. If it does not end within `patience`, gives the session up: -ETIMEDOUT. */
static int run(guard_job job, void *argument, uint64_t patience)
{
	int result = 0;
	if (hung)
		return -ETIMEDOUT;
	int error = wait_for_guard(patience, NULL);
	if (error == 0)
		error = guard_post(job, argument);
	if (error == 0)
		error = wait_for_guard(patience, &result);
	if (error == -ETIMEDOUT)
		give_up();
	return error ? error : result;
}

/* ---------------------------------------------------------------- the vtable */

static const char no_driver[] = "no CUDA driver in this process";

static int cupti_probe(char *sentence, size_t bytes)
{
	if (!cupti_driver_mapped()) {
		message_text(sentence, bytes, no_driver);
		return 0;
	}
	const char *tool = cupti_other_tool();
	session.sentence[0] = 0;
	if (hung) {
		session_say("a call into CUPTI did not return in an earlier capture; kernels cannot be recorded in "
			    "this process until it does");
	} else if (tool) {
		session_say(tool);
		session_say(" is in this process, and CUPTI serves no other tool beside it");
	} else {
		session_say("kernels, copies and calls of the CUDA API, if the process has used its GPU by then");
	}
	message_text(sentence, bytes, session.sentence);
	return !hung && !tool;
}

/* others not NULL: also looks for CUPTI's other clients. Without it that is done when the recording is switched on. */
static int arm(uint64_t patience, int *others)
{
	static unsigned watched;
	session.sentence[0] = 0;
	if (!cupti_driver_mapped() || cupti_load_driver() < 0) {
		session_say(no_driver);
		return -ENODEV;
	}
	int error = guard_start();
	if (error == -EBUSY) {
		session_say("a call into CUPTI of an earlier capture has not returned; kernels cannot be recorded "
			    "until it does");
		return error;
	}
	if (error) {
		session_say("no thread for the calls into CUPTI");
		return error;
	}
	hung = 0;
	error = run(session_driver, NULL, patience);
	if (error)
		return error;
	error = cupti_load(session.driver);
	if (error) {
		session_say(error == -ENOENT ? "no libcupti of CUDA 11.7 or later was found: not in the process, not "
					       "beside its CUDA runtime, not where the loader looks"
					     : "this libcupti lacks calls that the recording needs: ");
		session_say(error == -ENOENT ? "" : cupti_api.path);
		return error;
	}
	/* Exit handlers that are registered later run earlier: so at exit we end before the driver does. */
	life_watch_exit(&watched);
	error = run(session_learn, NULL, patience);
	return error ? error : run(session_ask, others, patience);
}

/* Writes the reason of a failure, or the session's sentence, for the user. Returns `error`. */
static int conclude(int error, char *sentence, size_t bytes)
{
	if (error == -ETIMEDOUT && hung)
		message_text(sentence, bytes, "a call into CUPTI does not return; kernels are not recorded");
	else
		message_text(sentence, bytes, session.sentence);
	return error;
}

/* Looks for a tool that is known by its libraries. If CUPTI was loaded by another tool, asks CUPTI. */
static int cupti_others(char *sentence, size_t bytes)
{
	const char *tool = cupti_other_tool();
	int error = 0;
	session.sentence[0] = 0;
	session.shared = 0;
	if (tool) {
		session_say(tool);
		session_say(" is in the process");
	} else if (!hung && cupti_driver_mapped() && cupti_without_torch()) {
		error = arm(ASK_FIRST_NS, &yes);
		if (!hung)
			guard_stop();
		if (!error && session.shared)
			session_say("another tool uses CUPTI there");
	}
	message_text(sentence, bytes, session.sentence);
	return tool || error == -EBUSY || (!error && session.shared);
}

static int cupti_arm(const struct collector_request *request, char *sentence, size_t bytes)
{
	int error = arm(ASK_NS, NULL);
	session.generation = request->generation;
	if (!error && (error = run(session_ready, NULL, START_NS)) == -ETIMEDOUT) {
		message_text(
			sentence, bytes,
			"CUPTI starts only when the devices have finished their work, and they had not within 10 s; "
			"kernels are not recorded this time");
		return error;
	}
	/* A guard that is stuck ends by itself. */
	if (error && !hung)
		guard_stop();
	return error ? conclude(error < 0 ? error : -EIO, sentence, bytes) : 0;
}

static int cupti_start(const struct collector_request *request, char *sentence, size_t bytes)
{
	session.generation = request->generation;
	session.graphs_whole = (request->options & ARM_GRAPHS_WHOLE) != 0;
	session.graphs_allowed = request->whole_graphs;
	session.boundary_patience = request->boundary_patience;
	session.all_calls = (request->options & ARM_API_ALL) != 0;
	session.memory = request->wanted >> COLLECTOR_MEMORY & 1;
	session.attached = request->attached;
	stopping = forced = 0;
	drain_ns = 0;
	int error = run(session_start, NULL, START_NS);
	on = !error;
	flush_at = sink_now() + FLUSH_NS;
	return conclude(error, sentence, bytes);
}

static uint64_t cupti_poll(uint64_t now, uint32_t step_thread)
{
	(void)step_thread;
	if (!on || hung)
		return UINT64_MAX;
	uint64_t busy = guard_busy();
	if (busy) {
		if (busy > TICK_NS)
			give_up();
	} else if (now < flush_at) {
		guard_post(session_tick, NULL);
	} else if (guard_post(session_tick, &yes) == 0) {
		flush_at = now + FLUSH_NS;
	}
	return now + POLL_NS;
}

static void cupti_stop(void)
{
	/* If the guard is busy, drain() posts the job. */
	stopping = on && !hung && guard_post(session_stop, NULL) == 0;
}

/* Each time a little longer. */
static void nap(uint64_t *ns)
{
	struct timespec time = {0, (long)*ns};
	nanosleep(&time, NULL);
	*ns = *ns * 2 < NAP_MOST ? *ns * 2 : NAP_MOST;
}

/* Waits until CUPTI has given back all buffers with records, at most until `until`; with `flush` asks for them each
 * time. Returns how many CUPTI still has. */
static uint32_t wait_for_buffers(int flush, uint64_t until, uint64_t patience)
{
	uint32_t written;
	for (uint64_t ns = NAP_LEAST;; nap(&ns)) {
		if (flush)
			run(session_flush, NULL, patience);
		buffers_held(&written);
		if (!written || hung || sink_now() >= until)
			return written;
	}
}

/* Switches off, and waits for records of operations that still run on the devices. It does not synchronise with the
 * devices. */
static void drain(uint64_t deadline)
{
	uint64_t now = sink_now(), time = deadline > now ? deadline - now : 0, until = deadline - time / 3;
	/* Each call may take the time that all of them should take together, because a call that begins after the
	 * deadline needs time, too. */
	uint64_t patience = time > CALL_NS ? time : CALL_NS;
	if (!stopping)
		run(session_stop, NULL, patience);
	else if (wait_for_guard(patience, NULL))
		give_up();
	if (hung)
		return;
	/* Buffers that went to another client do not come back to us. A forced flush would also give that client its
	 * unfinished records. */
	if (session.replaced) {
		wait_for_buffers(0, sink_now() + CALL_NS / 2, patience);
	} else {
		forced = wait_for_buffers(1, until, patience) != 0 && !session.shared;
		if (!session.shared) {
			run(session_flush, &yes, patience);
			wait_for_buffers(0, deadline, patience);
		}
	}
	run(session_end, NULL, patience);
}

/* Reads the buffers that CUPTI did not give back, as fast as the daemon takes their records. Leaves room for names and
 * facts, which other records refer to. Returns how many buffers there were. */
static uint32_t collect(uint64_t deadline)
{
	uint32_t at = 0, n = 0, generation;
	size_t bytes;
	unsigned place = gate_enter_for_long(GATE_OWN_NS);
	for (uint8_t *data; (data = buffers_collect(&at, &bytes, &generation)); n++) {
		if (sink_await_room(deadline))
			deliver_buffer(data, bytes, generation != session.generation);
		else
			deliver_none(data, bytes);
	}
	gate_leave(place);
	return n;
}

/* Until when work may have run whose launch we did not see. 0: it had ended before the recording began. */
static uint64_t unknown_until(uint64_t known_from)
{
	uint64_t start = sink_record_start(), end = sink_record_end() ? sink_record_end() : sink_now();
	if (!known_from || known_from > end)
		return end;
	return known_from > start ? known_from : 0;
}

static void write_session(const struct deliver_counts *counts, uint32_t collected)
{
	int stepped, silent;
	uint32_t written, held = buffers_held(&written);
	struct sink_thread *sink = sink_enter_pop();
	if (!sink)
		return;
	struct event_session e = {
		.head = {sizeof e, EVENT_SESSION, 0, 0},
		.clock_error = clock_error(&stepped, &silent),
		.records = counts->records,
		.buffer_bytes = buffers_bytes(),
		.foreign_buffers = session_foreign(),
		.astray_buffers = collected + held,
		.early = counts->early,
		.enable = session.enable_ns,
		.drain = drain_ns,
		.cupti_version = session.version,
		.driver_version = session.driver,
		.library = sink_string(sink, cupti_api.path, strlen(cupti_api.path), EVENT_SESSION),
		.kinds = session.kind_count,
		.runtime_version = cupti_api.runtime,
		.refused = session.refused,
		.known_from = unknown_until(counts->known_from),
	};
	e.options = (session.graphs_whole ? SESSION_GRAPHS_WHOLE : 0) | (session.all_calls ? SESSION_API_ALL : 0) |
		    SESSION_API_MAPS | (session.shared ? SESSION_SHARED : 0) | (forced ? SESSION_FORCED : 0) |
		    (hung ? SESSION_HUNG : 0) | (stepped ? SESSION_CLOCK_STEPPED : 0) |
		    (silent ? SESSION_CLOCK_SILENT : 0) | (session.exhausted ? SESSION_EXHAUSTED : 0) |
		    (session.flush_result && collected ? SESSION_NO_FLUSH : 0) |
		    (!hung && session.left_on ? SESSION_LEFT_ON : 0) | (session.attached ? SESSION_ATTACHED : 0);
	if (!hung && session.replaced)
		e.options |= SESSION_REPLACED;
	/* Our callbacks were registered at least until our last record. */
	if (session.exhausted)
		e.missing_from = session.exhausted_at;
	else if (session.replaced)
		e.missing_from = counts->last ? counts->last : sink_record_start();
	if (sink_record_end() && e.missing_from >= sink_record_end())
		e.missing_from = 0;
	sink_write(sink, &e);
	sink_leave(sink);
}

static void cupti_drain(uint64_t deadline)
{
	struct deliver_counts counts;
	if (!on)
		return;
	uint64_t from = sink_now();
	drain(deadline);
	drain_ns = sink_now() - from;
	/* Reading the buffers that CUPTI did not give back takes time, too. */
	uint64_t more = deadline > from ? (deadline - from) / 3 : 0;
	uint32_t collected = collect(deadline + more);
	deliver_end(deadline + 50 * MILLISECOND, &counts);
	if (!hung)
		sink_lost_many(LOSS_DRIVER, 0, session.dropped);
	write_session(&counts, collected);
	on = 0;
}

static void cupti_disarm(void)
{
	if (!hung && kinds_left_for_last())
		guard_post_last(session_last);
	else if (!hung)
		guard_stop();
	buffers_trim();
}

const struct collector_ops collector_cupti = {
	.bit = COLLECTOR_CUPTI,
	.still = 1,
	.probe = cupti_probe,
	.others = cupti_others,
	.arm = cupti_arm,
	.start = cupti_start,
	.poll = cupti_poll,
	.stop = cupti_stop,
	.drain = cupti_drain,
	.bytes = buffers_bytes,
	.disarm = cupti_disarm,
};
