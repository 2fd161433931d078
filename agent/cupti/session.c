/* session.c - see session.h.
 *
 * Up to CUDA 13.2 there is one client of CUPTI in a process, and we are it without a subscriber, so that a profiler of the job
 * finds CUPTI free before, while and after we record; where somebody else is there we stay out. From 13.3 on a session is one of
 * several by the calls that name a subscriber; ours ends with it. */
#include "session.h"

#include "api.h"
#include "buffers.h"
#include "calls.h"
#include "clock.h"
#include "deliver.h"
#include "layout.h"

#include "../facts.h"
#include "../life.h"
#include "../sink.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

struct session session;
static struct cupti_layout layout;
static int learnt;

/* What the session holds of CUPTI. Written by jobs alone. */
static cupti_subscriber subscriber;
static struct {
	int zeroed, thread_type; /* 1: ours is set, and the former one is to be restored */
	uint8_t former_zeroed;
	uint32_t former_thread_type;
} taken;
static unsigned sessions_before;

static _Atomic uint64_t foreign, received, asked;

/* CUPTI 13.0 before update 1 can lock up when kernels are switched off. */
#define VERSION_LOCKS_UP 130000u
/* Before 13.1 update 1 launches of graphs have wrong ids in every session but the first. */
#define VERSION_GRAPH_IDS_FROM 130000u
#define VERSION_GRAPH_IDS_UNTIL 130101u
/* cuptiSubscribe_v2's parameters grew. */
#define VERSION_MULTIPLE 130200u

/* ---------------------------------------------------------------- sentences */

void session_say(const char *text)
{
	size_t used = strlen(session.sentence), n = strlen(text);
	if (n > sizeof session.sentence - 1 - used)
		n = sizeof session.sentence - 1 - used;
	memcpy(session.sentence + used, text, n);
	session.sentence[used + n] = 0;
}

void session_say_number(uint64_t number)
{
	char digits[24];
	facts_decimal(digits, number);
	session_say(digits);
}

static int refuse(int error, const char *what, int result)
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

static int refuse_for(const char *holder)
{
	session.sentence[0] = 0;
	session_say("CUPTI is held by another tool");
	if (*holder) {
		session_say(" (");
		session_say(holder);
		session_say(")");
	}
	session_say(", and serves one at a time; kernels can be recorded when that has ended");
	return -EBUSY;
}

/* ---------------------------------------------------------------- the driver, and the library */

int session_driver(void *unused)
{
	(void)unused;
	int devices = 0;
	if (cupti_api.device_count(&devices))
		return refuse(-ENODEV,
			      "the CUDA driver is loaded but not initialised: this process has not used a GPU yet", 0);
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
		return refuse(-ENODEV, "CUPTI does not answer in this process", result);
	session.version = version;
	if (learnt)
		return 0;
	if (cupti_layout_choose(&layout, version) < 0)
		return refuse(-ENOTSUP,
			      "this CUPTI is older than that of CUDA 11.7, the oldest whose records are known", 0);
	/* A library that does not answer is taken for what its version says. */
	cupti_layout_prove(&layout, cupti_api.next_record, cupti_api.struct_size);
	calls_learn();
	learnt = 1;
	return 0;
}

/* ---------------------------------------------------------------- CUPTI's callbacks */

static void requested(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
	deliver_thread_seen();
	atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed);
	*buffer = buffers_take(bytes);
	*most_records = 0;
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

static void requested_v2(uint8_t **buffer, size_t *bytes, size_t *most_records, void *info)
{
	(void)info;
	requested(buffer, bytes, most_records);
}

static void completed_v2(uint8_t *buffer, size_t bytes, size_t valid, void *info)
{
	(void)info;
	completed(NULL, 0, buffer, bytes, valid);
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

static int call_enable(uint32_t kind, int dump)
{
	int result;
	if (subscriber && dump && cupti_api.enable_dump_v2)
		result = cupti_api.enable_dump_v2(subscriber, kind, NULL);
	else if (subscriber)
		result = cupti_api.enable_v2(subscriber, kind, NULL);
	else if (dump && cupti_api.enable_dump)
		result = cupti_api.enable_dump(kind);
	else
		result = cupti_api.enable(kind);
	if (!result) {
		session.kinds |= 1ull << kind;
		session.kind_count++;
	}
	return result;
}

static int call_disable(uint32_t kind)
{
	return subscriber ? cupti_api.disable_v2(subscriber, kind, NULL) : cupti_api.disable(kind);
}

static int call_attribute(uint32_t attribute, void *value, size_t bytes, int set)
{
	if (subscriber)
		return set ? cupti_api.attribute_set_v2(subscriber, attribute, &bytes, value)
			   : cupti_api.attribute_get_v2(subscriber, attribute, &bytes, value);
	if (!cupti_api.attribute_get || !cupti_api.attribute_set)
		return CUPTI_RESULT_UNKNOWN;
	return set ? cupti_api.attribute_set(attribute, &bytes, value)
		   : cupti_api.attribute_get(attribute, &bytes, value);
}

static int read_ticks(uint64_t *ret)
{
	return subscriber && cupti_api.timestamp_v2 ? cupti_api.timestamp_v2(subscriber, ret)
						    : cupti_api.timestamp(ret);
}

/* ---------------------------------------------------------------- who else is there */

static void ignore(void *user, unsigned domain, uint32_t cbid, const void *data)
{
	(void)user;
	(void)domain;
	(void)cbid;
	(void)data;
}

/* other[128]: name of whoever is there, as far as CUPTI says. */
static int subscribe_v2(cupti_subscriber *ret, int multiple, char *other)
{
	struct cupti_subscription wish = {
		.bytes = session.version >= VERSION_MULTIPLE ? sizeof wish
							     : offsetof(struct cupti_subscription, multiple),
		.name = "profd",
		.other = other,
		.other_bytes = 127,
		.multiple = (uint8_t)multiple,
	};
	memset(other, 0, 128);
	*ret = NULL;
	return cupti_api.subscribe_v2(ret, ignore, NULL, &wish);
}

static int has_multiple(void)
{
	return cupti_api.subscribe_v2 && cupti_api.enable_v2 && cupti_api.disable_v2 &&
	       cupti_api.register_callbacks_v2 && cupti_api.next_record_v2 && cupti_api.dropped_v2 &&
	       cupti_api.attribute_get_v2 && cupti_api.attribute_set_v2;
}

/* Has anybody activity kinds enabled? As far as CUPTI says: from 13.2 on. */
static int others_record(void)
{
	uint32_t on = 0;
	return cupti_api.enabled_kinds && !cupti_api.enabled_kinds(NULL, NULL, NULL, &on) && on;
}

/* A subscriber beside which others can be; 0 where it is there. */
static int join_others(char *other)
{
	cupti_subscriber mine;
	int result = subscribe_v2(&mine, 1, other);
	if (result || !mine)
		return result ? result : CUPTI_RESULT_UNKNOWN;
	subscriber = mine;
	session.shared = other[0] != 0 || others_record();
	return 0;
}

/* CUPTI for us alone: asked for by subscribing, which is undone at once. 0, or -EBUSY or another errno with a sentence. */
static int be_alone(void)
{
	char other[128] = "";
	cupti_subscriber mine = NULL;
	int result = CUPTI_RESULT_UNKNOWN;
	if (cupti_api.subscribe_v2)
		result = subscribe_v2(&mine, 0, other);
	if (result && result != CUPTI_RESULT_TAKEN)
		result = cupti_api.subscribe(&mine, ignore, NULL);
	if (!result)
		cupti_api.unsubscribe(mine);
	if (result == CUPTI_RESULT_TAKEN)
		return refuse_for(other);
	if (result == CUPTI_RESULT_NOT_INITIALIZED || result == CUPTI_RESULT_UNKNOWN)
		return refuse(-ENODEV, "CUPTI cannot work in this process: no matching CUDA driver", result);
	if (result)
		return refuse(-EIO, "CUPTI cannot be used in this process", result);
	if (others_record())
		return refuse_for("it has activity kinds enabled, without a subscriber's name");
	return 0;
}

static void leave_others(void)
{
	if (subscriber)
		cupti_api.unsubscribe(subscriber);
	subscriber = NULL;
}

/* Sets `subscriber`, or finds CUPTI free for us alone. */
static int find_place(void)
{
	char other[128];
	/* Graphs as a whole are one choice for all clients, for as long as the process lives: not ours to make for others. */
	if (has_multiple() && !session.graphs_whole && join_others(other) == 0)
		return 0;
	int error = be_alone();
	if (error == -EBUSY && has_multiple() && session.graphs_whole && join_others(other) == 0) {
		session.sentence[0] = 0;
		error = 0;
	}
	return error;
}

int session_ask(void *unused)
{
	(void)unused;
	const char *tool = cupti_other_tool();
	if (tool)
		return refuse_for(tool);
	if (session.version == VERSION_LOCKS_UP)
		return refuse(
			-ENOTSUP,
			"CUPTI 13.0 can lock the job up when kernels are switched off; update 1 of CUDA 13.0 does not",
			0);
	if (!cupti_layout_size(&layout, CUPTI_KIND_CONCURRENT_KERNEL)) {
		refuse(-ENOTSUP, "CUPTI's records of kernels are unknown: CONCURRENT_KERNEL ", 0);
		session_say(cupti_layout_sentence(&layout, CUPTI_KIND_CONCURRENT_KERNEL));
		return -ENOTSUP;
	}
	int error = find_place();
	leave_others();
	return error;
}

/* ---------------------------------------------------------------- on */

static void take_attributes(void)
{
	uint8_t one = 1;
	uint32_t system = CUPTI_THREAD_ID_SYSTEM;
	memset(&taken, 0, sizeof taken);
	/* CUPTI then does not clear buffers in the job's threads. */
	if (!call_attribute(CUPTI_ATTRIBUTE_ZEROED_OUT, &taken.former_zeroed, sizeof taken.former_zeroed, 0))
		taken.zeroed = !call_attribute(CUPTI_ATTRIBUTE_ZEROED_OUT, &one, sizeof one, 1);
	/* The job's own profiler goes by the default: pthread_self(). */
	if (subscriber) {
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
	if (taken.thread_type && subscriber)
		call_attribute(CUPTI_ATTRIBUTE_THREAD_ID_TYPE, &taken.former_thread_type,
			       sizeof taken.former_thread_type, 1);
	else if (taken.thread_type)
		cupti_api.thread_type_set(taken.former_thread_type);
	memset(&taken, 0, sizeof taken);
}

/* Of the calls of one domain only those that are wanted. Where the library will not, deliver.c sorts them out. */
static void leave_out_calls(unsigned domain)
{
	unsigned failures = 0;
	for (uint32_t id = 1; id < calls_end(domain) && failures < 4; id++) {
		int result = 0;
		if (calls_wanted(domain, id))
			continue;
		if (subscriber && domain == CALLS_RUNTIME && cupti_api.enable_runtime_v2)
			result = cupti_api.enable_runtime_v2(subscriber, id, 0);
		else if (subscriber && domain == CALLS_DRIVER && cupti_api.enable_driver_v2)
			result = cupti_api.enable_driver_v2(subscriber, id, 0);
		else if (!subscriber && domain == CALLS_RUNTIME && cupti_api.enable_runtime)
			result = cupti_api.enable_runtime(id, 0);
		else if (!subscriber && domain == CALLS_DRIVER && cupti_api.enable_driver)
			result = cupti_api.enable_driver(id, 0);
		else
			return;
		failures += result != 0;
	}
}

/* Counters of managed memory: bytes either way, faults of both sides, thrashing, throttling, maps (1 to 8 but for none). */
static void want_unified_memory(void)
{
	struct cupti_unified_counter wish[4];
	static const uint32_t counters[] = {1, 2, 3, 4};
	if (!cupti_api.unified_counters)
		return;
	for (size_t i = 0; i < 4; i++)
		wish[i] = (struct cupti_unified_counter){.scope = 1, .kind = counters[i], .enable = 1};
	/* Answers 27 to 31 where the device has no such counters. */
	if (!cupti_api.unified_counters(wish, 4))
		call_enable(CUPTI_KIND_UNIFIED_MEMORY_COUNTER, 0);
}

static int enable_kinds(void)
{
	static const struct {
		uint8_t kind, dump;
	} always[] = {
		{CUPTI_KIND_DEVICE, 1},
		{CUPTI_KIND_CONTEXT, 1},
		{CUPTI_KIND_STREAM, 1},
		{CUPTI_KIND_MODULE, 0},
		{CUPTI_KIND_OVERHEAD, 0},
		{CUPTI_KIND_CUDA_EVENT, 0},
		{CUPTI_KIND_SYNCHRONIZATION, 0},
		{CUPTI_KIND_MEMCPY, 0},
		{CUPTI_KIND_MEMCPY2, 0},
		{CUPTI_KIND_MEMSET, 0},
		{CUPTI_KIND_CONCURRENT_KERNEL, 0},
	};
	for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
		/* A kind that the release does not have, or whose records cannot be read, is left out. */
		if (!cupti_layout_size(&layout, always[i].kind))
			continue;
		int result = call_enable(always[i].kind, always[i].dump);
		if (result && always[i].kind == CUPTI_KIND_CONCURRENT_KERNEL)
			return result;
	}
	if (session.graphs_whole &&
	    (!cupti_layout_size(&layout, CUPTI_KIND_GRAPH_TRACE) || call_enable(CUPTI_KIND_GRAPH_TRACE, 0))) {
		session.graphs_whole = 0;
		session_say("this CUPTI does not record graphs as a whole; recorded by their nodes. ");
	}
	if (session.memory) {
		if (cupti_layout_size(&layout, CUPTI_KIND_MEMORY2))
			call_enable(CUPTI_KIND_MEMORY2, 0);
		if (cupti_layout_size(&layout, CUPTI_KIND_MEMORY_POOL))
			call_enable(CUPTI_KIND_MEMORY_POOL, 0);
		if (cupti_layout_size(&layout, CUPTI_KIND_UNIFIED_MEMORY_COUNTER))
			want_unified_memory();
	}
	for (unsigned domain = CALLS_DRIVER; domain <= CALLS_RUNTIME; domain++) {
		uint32_t kind = domain == CALLS_RUNTIME ? CUPTI_KIND_RUNTIME : CUPTI_KIND_DRIVER;
		/* First all, then less: enabling the kind undoes what was said of single calls. */
		if (cupti_layout_size(&layout, kind) && !call_enable(kind, 0) && !session.all_calls)
			leave_out_calls(domain);
	}
	return 0;
}

static void disable_among(uint64_t kinds)
{
	for (uint32_t kind = 63; kind > 0; kind--)
		if (session.kinds & kinds & 1ull << kind && !call_disable(kind))
			session.kinds &= ~(1ull << kind);
}

static void disable_kinds(void)
{
	uint64_t calls = 1ull << CUPTI_KIND_RUNTIME | 1ull << CUPTI_KIND_DRIVER;
	disable_among(~calls);
	/* A call that has begun in the last step is told of when it ends, if its kind is on then. */
	if (session.kinds & calls) {
		struct timespec nap = {0, 1000000};
		nanosleep(&nap, NULL);
	}
	disable_among(calls);
}

static void hazards(void)
{
	session_say("CUPTI ");
	session_say_number(session.version);
	session_say(subscriber ? ", beside other clients of it (" : " (");
	session_say(cupti_api.path);
	session_say(")");
	if (session.version >= VERSION_GRAPH_IDS_FROM && session.version < VERSION_GRAPH_IDS_UNTIL && sessions_before)
		session_say(": from the second capture of a process on, this release gives launches of CUDA graphs "
			    "wrong ids");
}

/* Once with the place that was found; where CUPTI does not let that be, *ret_result says why. */
static int start_here(int *ret_result)
{
	struct deliver_settings settings = {&layout, session.all_calls, 0, subscriber};
	int result = subscriber ? cupti_api.register_callbacks_v2(subscriber, requested_v2, completed_v2)
				: cupti_api.register_callbacks(requested, completed);
	if (!result) {
		take_attributes();
		settings.pthread_numbers = !taken.thread_type;
		deliver_begin(&settings);
		int error = clock_begin(read_ticks);
		if (error < 0)
			return error;
		result = enable_kinds();
		/* Two readings make a line; nothing that is recorded is older. */
		struct timespec nap = {0, 1000000};
		clock_sample(0);
		nanosleep(&nap, NULL);
		clock_sample(0);
	}
	*ret_result = result;
	return result ? -EIO : 0;
}

static void undo(void)
{
	disable_kinds();
	return_attributes();
	leave_others();
}

int session_start(void *unused)
{
	(void)unused;
	uint64_t from = sink_now();
	int result = 0, error = find_place();
	session.kinds = session.kind_count = 0;
	session.replaced = 0;
	session.dropped = 0;
	atomic_store(&foreign, 0);
	atomic_store(&received, 0);
	if (error == 0 && buffers_begin(session.generation) < 0)
		error = refuse(-ENOMEM, "no memory for activity buffers", 0);
	if (error == 0) {
		buffers_stock(1);
		session.sentence[0] = 0;
		error = start_here(&result);
		/* What has been tried with others, and does not go, may go alone. */
		if (error && subscriber) {
			undo();
			error = be_alone();
			if (error == 0)
				error = start_here(&result);
		}
		if (error == -EIO)
			refuse(error, "CUPTI does not record kernels in this process", result);
	}
	if (error) {
		undo();
		return error;
	}
	hazards();
	sessions_before++;
	session.enable_ns = sink_now() - from;
	return 0;
}

/* ---------------------------------------------------------------- while it is on, and off */

static size_t dropped(void)
{
	size_t n = 0;
	int result = subscriber ? cupti_api.dropped_v2(subscriber, NULL, 0, &n) : cupti_api.dropped(NULL, 0, &n);
	return result ? 0 : n;
}

int session_tick(void *flush)
{
	clock_sample(10000000);
	buffers_stock(0);
	/* What is dropped in warm-up is not this recording's; CUPTI counts anew when it is asked. */
	if (!sink_record_start()) {
		size_t n = dropped();
		session.dropped = sink_record_start() ? n : 0;
	}
	return flush ? session_flush(NULL) : 0;
}

int session_flush(void *forced)
{
	int result = cupti_api.flush(forced ? CUPTI_FLUSH_FORCED : 0);
	clock_sample(1000000);
	return result;
}

/* Kinds are the process's, not a client's: switched off by us they are off for a profiler of the job that has begun since, and
 * has put its own callbacks in the place of ours. CUPTI does not say so; but a record that we provoke is then written into no
 * buffer of ours. */
static int is_replaced(void)
{
	if (subscriber || !cupti_api.enable_dump || !(session.kinds >> CUPTI_KIND_DEVICE & 1))
		return 0;
	cupti_api.flush(0);
	uint64_t before = atomic_load_explicit(&asked, memory_order_relaxed);
	size_t filled = buffers_filled();
	if (cupti_api.enable_dump(CUPTI_KIND_DEVICE))
		return 0;
	return atomic_load_explicit(&asked, memory_order_relaxed) == before && buffers_filled() == filled;
}

int session_stop(void *unused)
{
	(void)unused;
	session.replaced = is_replaced();
	/* What a profiler wants stays on for it; it knows to switch that off. */
	uint64_t kept = 1ull << CUPTI_KIND_CONCURRENT_KERNEL | 1ull << CUPTI_KIND_MEMCPY | 1ull << CUPTI_KIND_MEMCPY2 |
			1ull << CUPTI_KIND_MEMSET | 1ull << CUPTI_KIND_RUNTIME | 1ull << CUPTI_KIND_DRIVER |
			1ull << CUPTI_KIND_OVERHEAD | 1ull << CUPTI_KIND_SYNCHRONIZATION;
	if (session.replaced)
		session.kinds &= ~kept;
	disable_kinds();
	session.shared |= subscriber && others_record();
	return 0;
}

int session_end(void *unused)
{
	(void)unused;
	session.dropped += dropped();
	undo();
	return 0;
}

void session_cleanup(void)
{
	undo();
}
