/* kinds.c - see kinds.h. The guard's thread. */
#include "kinds.h"

#include "api.h"
#include "calls.h"
#include "clients.h"
#include "session.h"

#include "../core/hold.h"

#include "../../proto/events.h"

#include <time.h>

static int left_for_last; /* a kind is still on, and is switched off when everything else is over */

static int call_enable(uint32_t kind, int dump)
{
	cupti_subscriber own = clients_own();
	int result;
	if (own && dump && cupti_api.enable_dump_v2)
		result = cupti_api.enable_dump_v2(own, kind, NULL);
	else if (own)
		result = cupti_api.enable_v2(own, kind, NULL);
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
	return clients_own() ? cupti_api.disable_v2(clients_own(), kind, NULL) : cupti_api.disable(kind);
}

/* Switches off the calls of a domain that nobody wants. If the library refuses, decoder.c leaves them out. */
static void leave_out_calls(unsigned domain)
{
	cupti_subscriber own = clients_own();
	unsigned failures = 0;
	for (uint32_t id = 1; id < calls_end(domain) && failures < 4; id++) {
		int result = 0;
		if (calls_wanted(domain, id))
			continue;
		if (own && domain == CALLS_RUNTIME && cupti_api.enable_runtime_v2)
			result = cupti_api.enable_runtime_v2(own, id, 0);
		else if (own && domain == CALLS_DRIVER && cupti_api.enable_driver_v2)
			result = cupti_api.enable_driver_v2(own, id, 0);
		else if (!own && domain == CALLS_RUNTIME && cupti_api.enable_runtime)
			result = cupti_api.enable_runtime(id, 0);
		else if (!own && domain == CALLS_DRIVER && cupti_api.enable_driver)
			result = cupti_api.enable_driver(id, 0);
		else
			return;
		failures += result != 0;
	}
}

/* Counters of managed memory: bytes to and from the device, page faults of the processor and of the device. */
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

/* Switches a kind on and returns CUPTI's answer. A kind that the release does not have, or whose records cannot be
 * read, is left out. */
static int want(const struct cupti_layout *layout, uint32_t kind, int dump)
{
	int result = cupti_layout_size(layout, kind) ? call_enable(kind, dump) : CUPTI_RESULT_UNKNOWN;
	if (result)
		session.refused |= 1ull << kind;
	return result;
}

static void want_whole_graphs(const struct cupti_layout *layout)
{
	/* If a graph was made before this kind was on, its launch ended the job (SIGSEGV; CUDA 13.0 on an H200, each
	 * time; others report the same of CUDA 11). We always come later than the graphs. So a user who has seen it
	 * work with his CUDA allows it in the job's environment. */
	if (!session.graphs_allowed) {
		session.graphs_whole = 0;
		session_say("graphs are recorded by their nodes: as a whole they can end a job whose graphs were made "
			    "before (PROFD_GRAPHS_WHOLE=1 in the job's environment allows it). ");
	} else if (want(layout, CUPTI_KIND_GRAPH_TRACE, 0)) {
		session.graphs_whole = 0;
		session_say("this CUPTI does not record graphs as a whole; recorded by their nodes. ");
	}
}

int kinds_enable(const struct cupti_layout *layout)
{
	static const uint8_t always[] = {CUPTI_KIND_OVERHEAD, CUPTI_KIND_CUDA_EVENT, CUPTI_KIND_SYNCHRONIZATION,
					 CUPTI_KIND_MEMCPY,   CUPTI_KIND_MEMCPY2,    CUPTI_KIND_MEMSET};
	static const uint8_t dumped[] = {CUPTI_KIND_DEVICE, CUPTI_KIND_CONTEXT, CUPTI_KIND_STREAM};
	for (size_t i = 0; i < sizeof always; i++)
		want(layout, always[i], 0);
	int result = want(layout, CUPTI_KIND_CONCURRENT_KERNEL, 0);
	if (result)
		return result;
	if (session.graphs_whole)
		want_whole_graphs(layout);
	if (session.memory) {
		want(layout, CUPTI_KIND_MEMORY2, 0);
		if (cupti_layout_size(layout, CUPTI_KIND_MEMORY_POOL))
			call_enable(CUPTI_KIND_MEMORY_POOL, 0);
	}
	for (unsigned domain = CALLS_DRIVER; domain <= CALLS_RUNTIME; domain++) {
		uint32_t kind = domain == CALLS_RUNTIME ? CUPTI_KIND_RUNTIME : CUPTI_KIND_DRIVER;
		/* The kind comes first and single calls after it, because enabling a kind enables all of its calls
		 * again. */
		if (!want(layout, kind, 0) && !session.all_calls)
			leave_out_calls(domain);
	}
	/* The other kinds do not affect launches that are under way, and take longer. */
	hold_release();
	for (size_t i = 0; i < sizeof dumped; i++)
		want(layout, dumped[i], 1);
	want(layout, CUPTI_KIND_MODULE, 0);
	if (session.memory && cupti_layout_size(layout, CUPTI_KIND_UNIFIED_MEMORY_COUNTER))
		want_unified_memory();
	return 0;
}

/* CUPTI takes 2 s to switch this kind off (CUDA 13.0). */
#define FOR_LAST (1ull << CUPTI_KIND_UNIFIED_MEMORY_COUNTER)

static void disable_among(uint64_t kinds)
{
	for (uint32_t kind = 63; kind > 0; kind--)
		if (session.kinds & kinds & 1ull << kind && !call_disable(kind))
			session.kinds &= ~(1ull << kind);
}

void kinds_disable_at_once(void)
{
	disable_among(~FOR_LAST);
}

int kinds_left_for_last(void)
{
	return left_for_last;
}

void kinds_disable_last(void)
{
	call_disable(CUPTI_KIND_UNIFIED_MEMORY_COUNTER);
	left_for_last = 0;
}

void kinds_disable(void)
{
	uint64_t calls = 1ull << CUPTI_KIND_RUNTIME | 1ull << CUPTI_KIND_DRIVER;
	disable_among(~(calls | FOR_LAST));
	/* A call is recorded when it ends, if its kind is on then. Calls of the last step get a moment to end. */
	if (session.kinds & calls) {
		struct timespec nap = {0, 1000000};
		nanosleep(&nap, NULL);
	}
	disable_among(calls);
	/* Where we have a subscriber, the kind ends with it. */
	left_for_last |= session.kinds & FOR_LAST && !clients_own();
	session.kinds &= ~FOR_LAST;
	session.left_on = session.kinds != 0;
}

void kinds_say_refused(void)
{
	const char *before = "; CUPTI refuses to record: ", *word;
	uint64_t kinds;
	for (unsigned i = 0; (word = activity_word(i, &kinds)); i++)
		if (session.refused & kinds) {
			session_say(before);
			session_say(word);
			before = ", ";
		}
}
