/* session.c - see session.h. clients.c finds out who else uses CUPTI. */
#include "session.h"

#include "api.h"
#include "buffers.h"
#include "calls.h"
#include "clients.h"
#include "clock.h"
#include "deliver.h"
#include "kinds.h"
#include "layout.h"
#include "thread_numbers.h"

#include "../core/hold.h"
#include "../core/life.h"
#include "../core/room.h"
#include "../core/sentence.h"
#include "agent/sink/sink.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

struct session session;
static struct cupti_layout layout;
static int learnt;

/* What the session has changed in CUPTI. Only jobs of the guard write it. */
static struct {
	int zeroed, thread_type; /* 1: our value is set, and the former one is to be restored */
	uint8_t former_zeroed;
	uint32_t former_thread_type;
} taken;
static unsigned sessions_before;

static _Atomic uint64_t foreign, received, asked, refused_buffers;

/* CUPTI 13.0 before update 1 can lock up when kernels are switched off. */
#define VERSION_LOCKS_UP 130000u
/* Before 13.1 update 1 launches of graphs have wrong ids in every session except the first. */
#define VERSION_GRAPH_IDS_FROM 130000u
#define VERSION_GRAPH_IDS_UNTIL 130101u
/* Before 12.9 CUPTI may crash if it gets no buffer. */
#define VERSION_NEEDS_NO_BUFFER 120900u

/* ---------------------------------------------------------------- sentences */

void session_say(const char *text)
{
	struct sentence s = sentence_continue(session.sentence, sizeof session.sentence);
	sentence_add(&s, text);
}

void session_say_number(uint64_t number)
{
	struct sentence s = sentence_continue(session.sentence, sizeof session.sentence);
	sentence_add_number(&s, number);
}

int session_refuse(int error, const char *what, int result)
{
	session.sentence[0] = 0;
	session_say(what);
	if (result) {
		session_say(" (CUPTI's answer: ");
		session_say_number((uint64_t)result);
		session_say(")");
	}
	return error;
}

/* ---------------------------------------------------------------- the driver, and the library */

int session_driver(void *unused)
{
	(void)unused;
	int devices = 0;
	if (cupti_api.device_count(&devices))
		return session_refuse(
			-ENODEV, "the CUDA driver is loaded but not initialised: this process has not used a GPU yet",
			0);
	if (cupti_api.driver_version(&session.driver))
		session.driver = 0;
	return 0;
}

int session_learn(void *unused)
{
	(void)unused;
	uint32_t version = 0;
	int result = cupti_api.version(&version);
	if (result)
		return session_refuse(-ENODEV, "CUPTI does not answer in this process", result);
	session.version = version;
	if (learnt)
		return 0;
	if (cupti_layout_choose(&layout, version) < 0)
		return session_refuse(
			-ENOTSUP, "this CUPTI is older than that of CUDA 11.7, the oldest whose records are known", 0);
	/* If the library does not answer, the sizes by its version stay. */
	cupti_layout_prove(&layout, cupti_api.next_record, cupti_api.struct_size);
	calls_learn();
	learnt = 1;
	return 0;
}

/* ---------------------------------------------------------------- CUPTI's callbacks */

static void requested(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
	thread_numbers_seen();
	atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed);
	*buffer = buffers_take(bytes);
	*most_records = 0;
	if (*buffer)
		return;
	/* Each time that CUPTI asks and gets no buffer, one record is lost. Later releases count these themselves. */
	if (session.version >= VERSION_NEEDS_NO_BUFFER)
		return;
	*buffer = buffers_scratch(bytes);
	*most_records = 1;
	atomic_fetch_add_explicit(&refused_buffers, 1, memory_order_relaxed);
	if (sink_record_start() && !sink_record_end())
		sink_lost_many(LOSS_NO_BUFFER, 0, 1);
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
	(void)context;
	(void)stream;
	uint32_t generation;
	int saved = errno, ours = buffers_receive(buffer, &generation);
	if (ours < 0)
		atomic_fetch_add_explicit(&foreign, 1, memory_order_relaxed);
	if (ours <= 0)
		return;
	atomic_fetch_add_explicit(&received, 1, memory_order_relaxed);
	if (valid > bytes)
		valid = bytes;
	if (valid && life_alive())
		deliver_buffer(buffer, valid, generation != session.generation);
	buffers_give(buffer, valid);
	errno = saved;
}

static uint64_t session_asked(void)
{
	return atomic_load_explicit(&asked, memory_order_relaxed);
}

uint64_t session_foreign(void)
{
	return atomic_load_explicit(&foreign, memory_order_relaxed);
}

uint64_t session_received(void)
{
	return atomic_load_explicit(&received, memory_order_relaxed);
}

/* ---------------------------------------------------------------- calls with and without a subscriber */

static int call_attribute(uint32_t attribute, void *value, size_t bytes, int set)
{
	cupti_subscriber own = clients_own();
	if (own)
		return set ? cupti_api.attribute_set_v2(own, attribute, &bytes, value)
			   : cupti_api.attribute_get_v2(own, attribute, &bytes, value);
	if (!cupti_api.attribute_get || !cupti_api.attribute_set)
		return CUPTI_RESULT_UNKNOWN;
	return set ? cupti_api.attribute_set(attribute, &bytes, value)
		   : cupti_api.attribute_get(attribute, &bytes, value);
}

static int read_ticks(uint64_t *ret)
{
	return clients_own() && cupti_api.timestamp_v2 ? cupti_api.timestamp_v2(clients_own(), ret)
						       : cupti_api.timestamp(ret);
}

int session_ask(void *others)
{
	const char *tool = cupti_other_tool();
	if (tool) {
		session.sentence[0] = 0;
		session_say("CUPTI is held by another tool (");
		session_say(tool);
		session_say(
			"), and serves one tool at a time; kernels can be recorded when that tool no longer uses CUPTI");
		return -EBUSY;
	}
	if (session.version == VERSION_LOCKS_UP)
		return session_refuse(
			-ENOTSUP,
			"CUPTI 13.0 can lock the job up when kernels are switched off; update 1 of CUDA 13.0 does not",
			0);
	if (!cupti_layout_size(&layout, CUPTI_KIND_CONCURRENT_KERNEL)) {
		session_refuse(-ENOTSUP, "CUPTI's records of kernels are unknown: CONCURRENT_KERNEL ", 0);
		session_say(cupti_layout_sentence(&layout, CUPTI_KIND_CONCURRENT_KERNEL));
		return -ENOTSUP;
	}
	return others ? clients_look() : 0;
}

/* ---------------------------------------------------------------- on */

static void take_attributes(void)
{
	uint8_t one = 1;
	uint32_t system = CUPTI_THREAD_ID_SYSTEM;
	memset(&taken, 0, sizeof taken);
	/* Then CUPTI does not clear buffers in the job's threads. */
	if (!call_attribute(CUPTI_ATTRIBUTE_ZEROED_OUT, &taken.former_zeroed, sizeof taken.former_zeroed, 0))
		taken.zeroed = !call_attribute(CUPTI_ATTRIBUTE_ZEROED_OUT, &one, sizeof one, 1);
	/* The former type is restored later, because a profiler of the job relies on the default, pthread_self(). */
	if (clients_own()) {
		if (!call_attribute(CUPTI_ATTRIBUTE_THREAD_ID_TYPE, &taken.former_thread_type, sizeof system, 0))
			taken.thread_type = !call_attribute(CUPTI_ATTRIBUTE_THREAD_ID_TYPE, &system, sizeof system, 1);
	} else if (cupti_api.thread_type_get && cupti_api.thread_type_set &&
		   !cupti_api.thread_type_get(&taken.former_thread_type)) {
		taken.thread_type = !cupti_api.thread_type_set(CUPTI_THREAD_ID_SYSTEM);
	}
}

static void return_attributes(void)
{
	if (taken.zeroed)
		call_attribute(CUPTI_ATTRIBUTE_ZEROED_OUT, &taken.former_zeroed, sizeof taken.former_zeroed, 1);
	if (taken.thread_type && clients_own())
		call_attribute(CUPTI_ATTRIBUTE_THREAD_ID_TYPE, &taken.former_thread_type,
			       sizeof taken.former_thread_type, 1);
	else if (taken.thread_type)
		cupti_api.thread_type_set(taken.former_thread_type);
	memset(&taken, 0, sizeof taken);
}

static void hazards(void)
{
	session_say("CUPTI ");
	session_say_number(session.version);
	session_say(clients_own() ? ", beside its other clients (" : " (");
	session_say(cupti_api.path);
	session_say(")");
	kinds_say_refused();
	if (session.version >= VERSION_GRAPH_IDS_FROM && session.version < VERSION_GRAPH_IDS_UNTIL && sessions_before)
		session_say(": from the second capture of a process on, this release gives launches of CUDA graphs "
			    "wrong ids");
}

/* *ret_result: CUPTI's answer where it refused. */
static int start_here(int *ret_result)
{
	struct deliver_settings settings = {&layout, session.all_calls, 0, clients_own()};
	*ret_result = clients_register();
	if (*ret_result)
		return -EIO;
	take_attributes();
	settings.pthread_numbers = !taken.thread_type;
	deliver_begin(&settings);
	int error = clock_begin(read_ticks);
	if (error < 0)
		return error;
	/* The step thread mostly stands already; on a full machine it may have gone on. */
	hold_ask(session.boundary_patience);
	*ret_result = kinds_enable(&layout);
	hold_release();
	/* Times are converted along a line between two readings, so two are needed before anything is recorded. */
	struct timespec nap = {0, 1000000};
	if (clock_sample(0) < 0)
		return -EPROTO;
	nanosleep(&nap, NULL);
	if (clock_sample(0) < 0)
		return -EPROTO;
	return *ret_result ? -EIO : 0;
}

static void undo(void)
{
	kinds_disable();
	return_attributes();
	clients_leave(session.kinds);
}

int session_ready(void *unused)
{
	(void)unused;
	uint32_t type;
	/* This call makes CUPTI set itself up; other calls would, too. */
	if (cupti_api.thread_type_get)
		cupti_api.thread_type_get(&type);
	if (buffers_begin(session.generation) < 0)
		return session_refuse(-ENOMEM, "no memory for activity buffers" ROOM_NEAR_LIMIT, 0);
	buffers_stock(1);
	return 0;
}

int session_start(void *unused)
{
	(void)unused;
	uint64_t from = sink_now();
	clients_callbacks(requested, completed, session_asked, cupti_layout_size(&layout, CUPTI_KIND_DEVICE));
	session.kinds = clients_left();
	session.kind_count = 0;
	session.refused = 0;
	session.shared = session.replaced = session.exhausted = 0;
	session.flush_result = session.left_on = 0;
	session.dropped = 0;
	atomic_store(&foreign, 0);
	atomic_store(&received, 0);
	atomic_store(&refused_buffers, 0);
	int result = 0, error = clients_find_place();
	if (error == 0) {
		session.sentence[0] = 0;
		error = start_here(&result);
		if (error == -EIO &&
		    (clients_own() || result == CUPTI_RESULT_TAKEN || result == CUPTI_RESULT_NOT_COMPATIBLE))
			error = clients_refuse();
		else if (error == -EIO)
			session_refuse(error, "CUPTI does not record kernels in this process", result);
		else if (error == -ENOMEM)
			session_refuse(error, "no memory for readings of the clock" ROOM_NEAR_LIMIT, 0);
		else if (error == -EPROTO)
			session_refuse(error, "CUPTI does not tell its time, and without it its records cannot be used",
				       0);
	}
	if (error) {
		undo();
		return error;
	}
	hazards();
	sessions_before++;
	session.on_at = sink_now();
	session.enable_ns = session.on_at - from;
	return 0;
}

/* ---------------------------------------------------------------- while it is on, and off */

/* CUPTI gives no buffers back and asks for more. Further records would be lost in any case, and the job should not
 * reach the end of the pool. So the recording of the GPU ends here. The drain brings the records in the buffers. */
static void stop_early(void)
{
	session.exhausted = 1;
	session.exhausted_at = sink_now();
	kinds_disable_at_once();
}

int session_tick(void *flush)
{
	clock_sample(10000000);
	buffers_stock(0);
	if ((buffers_scarce() || atomic_load(&refused_buffers)) && !session.exhausted)
		stop_early();
	/* Records that CUPTI drops in warm-up do not count as lost. clients_dropped() sets CUPTI's count to 0. */
	if (!sink_record_start()) {
		uint64_t n = clients_dropped();
		session.dropped = sink_record_start() ? n : 0;
	}
	return flush ? session_flush(NULL) : 0;
}

int session_flush(void *forced)
{
	int result = cupti_api.flush(forced ? CUPTI_FLUSH_FORCED : 0);
	if (result)
		session.flush_result = result;
	clock_sample(1000000);
	return result;
}

int session_stop(void *unused)
{
	(void)unused;
	/* Kinds belong to the process, not to a client. A profiler of the job may have started since, and have replaced
	 * our callbacks by its own; CUPTI does not tell us. If we switched the kinds off they would be off for that
	 * profiler, too. */
	session.replaced =
		session.kinds >> CUPTI_KIND_DEVICE & 1 && clients_replaced(&session.dropped) == CLIENTS_REPLACED;
	/* The kinds that such a profiler wants stay on. It switches them off itself. */
	uint64_t kept = 1ull << CUPTI_KIND_CONCURRENT_KERNEL | 1ull << CUPTI_KIND_MEMCPY | 1ull << CUPTI_KIND_MEMCPY2 |
			1ull << CUPTI_KIND_MEMSET | 1ull << CUPTI_KIND_RUNTIME | 1ull << CUPTI_KIND_DRIVER |
			1ull << CUPTI_KIND_OVERHEAD | 1ull << CUPTI_KIND_SYNCHRONIZATION;
	if (session.replaced)
		session.kinds &= ~kept;
	kinds_disable();
	return 0;
}

int session_end(void *unused)
{
	(void)unused;
	session.dropped += clients_dropped();
	undo();
	return 0;
}

int session_last(void *unused)
{
	(void)unused;
	kinds_disable_last();
	return 0;
}

void session_cleanup(void)
{
	undo();
}
