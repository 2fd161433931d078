/* decoder.c - see decoder.h. known.c keeps facts about devices and threads. */
#include "decoder.h"

#include "decode.h"
#include "known.h"
#include "thread_numbers.h"

#include "../../proto/limits.h"

#include <string.h>

/* Work that ended this long before the recording is left out. If the device's clock has an error (skew) that is added.
 * The first records do not show that error yet, so a little too much is kept; derive removes it. */
#define BEFORE_NS 100000000u
/* A difference as large as this is no clock error. */
#define SKEW_MOST_NS 1000000000u
/* Devices for which we remember the first operation. */
#define DEVICES 64u
/* CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE */
#define SYNC_OF_CONTEXT 4u

/* The most ns by which an operation began before its call. */
static _Atomic uint64_t skew;
/* In CUPTI's ticks, 0 = none: the first operation of each device, the first end of a wait for all work of a context,
 * and the last call or operation. */
static _Atomic uint64_t first_work[DEVICES], first_wait, last_record;

/* ---------------------------------------------------------------- the device side */

static void earliest(_Atomic uint64_t *ret, uint64_t ticks)
{
	uint64_t seen = atomic_load_explicit(ret, memory_order_relaxed);
	while ((!seen || ticks < seen) &&
	       !atomic_compare_exchange_weak_explicit(ret, &seen, ticks, memory_order_relaxed, memory_order_relaxed))
		;
}

static void latest(_Atomic uint64_t *ret, uint64_t ticks)
{
	uint64_t seen = atomic_load_explicit(ret, memory_order_relaxed);
	while (ticks > seen &&
	       !atomic_compare_exchange_weak_explicit(ret, &seen, ticks, memory_order_relaxed, memory_order_relaxed))
		;
}

/* Converts the times into `start` and `duration`, and counts missing times. Returns 0 where the operation is no part of
 * the recording. An operation without times, or one that may have run at the recording's beginning, is kept: its step
 * is found later, by its call or its time. */
static int device_times(struct decoder *d, struct event_head *head, const struct cupti_times *times,
			uint64_t *ret_start, uint64_t *ret_duration)
{
	if (!d->from)
		return 0;
	uint64_t end = times->end ? clock_convert(&d->cursor, times->end) : 0;
	if (times->end ? end + BEFORE_NS + atomic_load_explicit(&skew, memory_order_relaxed) < d->from : d->stale)
		return 0;
	*ret_start = *ret_duration = 0;
	if (!times->start) {
		sink_lost_many(LOSS_TIMELESS, head->kind, 1);
		return 1;
	}
	*ret_start = clock_convert(&d->cursor, times->start);
	if (!times->end) {
		sink_lost_many(LOSS_UNFINISHED, head->kind, 1);
		end = d->now;
	}
	*ret_duration = times->end > times->start
				? clock_between(&d->cursor, *ret_start, end, times->end - times->start)
			: end > *ret_start ? end - *ret_start
					   : 0;
	return 1;
}

/* By the device's clock the operation began before its call. */
static void note_early(struct decoder *d, uint64_t operation, uint64_t call)
{
	uint64_t by = clock_convert(&d->cursor, call) - clock_convert(&d->cursor, operation);
	d->early += d->from != 0;
	if (by < SKEW_MOST_NS)
		latest(&skew, by);
}

/* Did the operation begin before its call? The two records come in any order. Both times are in CUPTI's ticks, so that
 * our conversion cannot be the cause. */
static void pair_operation(struct decoder *d, uint32_t device, uint32_t correlation, uint64_t start)
{
	struct pair *p = &d->pairs[correlation & (PAIRS - 1)];
	if (!start)
		return;
	if (device < DEVICES)
		earliest(&first_work[device], start);
	latest(&last_record, start);
	if (!correlation)
		return;
	if (p->correlation != correlation)
		*p = (struct pair){correlation, 0, start};
	else if (!p->operation)
		p->operation = start;
	if (p->call && start < p->call)
		note_early(d, start, p->call);
}

static void pair_call(struct decoder *d, uint32_t correlation, uint64_t start)
{
	struct pair *p = &d->pairs[correlation & (PAIRS - 1)];
	if (!correlation)
		return;
	if (p->correlation != correlation)
		*p = (struct pair){correlation, 0, 0};
	if (!p->call && p->operation && p->operation < start)
		note_early(d, p->operation, start);
	p->call = start;
}

static uint32_t kernel_name(struct decoder *d, const char *name)
{
	_Static_assert(NAMES == 1u << 8, "the index below has 8 bits");
	struct named *known = &d->kernels[(uint64_t)(uintptr_t)name * 0x9e3779b97f4a7c15u >> 56];
	if (known->name != name || known->buffer != d->buffer)
		*known =
			(struct named){name, d->buffer,
				       sink_string(d->sink, name, strnlen(name, LIMIT_STRING_BYTES + 1), EVENT_KERNEL)};
	return known->id;
}

static void write_kernel(struct decoder *d, const void *record)
{
	struct event_kernel e;
	struct cupti_times times;
	const char *name;
	if (!cupti_decode_kernel(d->settings->layout, record, &e, &times, &name))
		return;
	pair_operation(d, e.device, e.correlation, times.start);
	if (!device_times(d, &e.head, &times, &e.start, &e.duration))
		return;
	if (times.queued)
		e.queued = clock_convert(&d->cursor, times.queued);
	if (times.submitted)
		e.submitted = clock_convert(&d->cursor, times.submitted);
	if (name)
		e.name = kernel_name(d, name);
	sink_write(d->sink, &e);
}

static void write_copy(struct decoder *d, const void *record, int peer)
{
	struct event_copy e;
	struct cupti_times times;
	if (!(peer ? cupti_decode_peer_copy : cupti_decode_copy)(d->settings->layout, record, &e, &times))
		return;
	pair_operation(d, e.device, e.correlation, times.start);
	if (!device_times(d, &e.head, &times, &e.start, &e.duration))
		return;
	sink_write(d->sink, &e);
}

static void write_set(struct decoder *d, const void *record)
{
	struct event_set e;
	struct cupti_times times;
	if (!cupti_decode_set(d->settings->layout, record, &e, &times))
		return;
	pair_operation(d, e.device, e.correlation, times.start);
	if (!device_times(d, &e.head, &times, &e.start, &e.duration))
		return;
	sink_write(d->sink, &e);
}

static void write_graph(struct decoder *d, const void *record)
{
	struct event_graph_launch e;
	struct cupti_times times;
	if (!cupti_decode_graph(d->settings->layout, record, &e, &times))
		return;
	pair_operation(d, e.device, e.correlation, times.start);
	if (!device_times(d, &e.head, &times, &e.start, &e.duration))
		return;
	sink_write(d->sink, &e);
}

/* ---------------------------------------------------------------- the host side */

/* Converts the start of a host event and finds its step. Returns 0 where it began outside of the recording. If the step
 * is in doubt because of the clock's error, the event is flagged and counted. */
static int host_step(struct decoder *d, struct event_head *head, uint64_t ticks, uint64_t *ret_start)
{
	int doubtful;
	if (!d->from || !ticks)
		return 0;
	*ret_start = clock_convert(&d->cursor, ticks);
	head->step = sink_step_at(*ret_start, d->cursor.error, &doubtful);
	if (doubtful) {
		head->flags |= EVENT_FLAG_DOUBTFUL;
		sink_lost_many(LOSS_DOUBTFUL, head->kind, 1);
	}
	/* A call that may belong to the first or the last step is kept: derive counts the work that it launched as
	 * doubtful. */
	return head->step != 0 || (doubtful && head->kind == EVENT_API_CALL);
}

static uint64_t span(struct decoder *d, uint64_t start, uint64_t end_ticks)
{
	uint64_t end = end_ticks ? clock_convert(&d->cursor, end_ticks) : 0;
	return end > start ? end - start : 0;
}

static uint32_t call_name(struct decoder *d, unsigned domain, uint32_t cbid)
{
	if (cbid >= CALLS_MOST || domain < CALLS_DRIVER || domain > CALLS_RUNTIME)
		return 0;
	uint32_t *id = &d->names[domain - 1][cbid];
	if (!*id) {
		uint32_t bytes;
		const char *name = calls_name(domain, cbid, &bytes);
		*id = name ? sink_string(d->sink, name, bytes, EVENT_API_CALL) : 0;
	}
	return *id;
}

static void waiting_write(struct decoder *d, struct waiting *w)
{
	for (uint32_t i = 0; i < w->count; i++)
		if (w->calls[i].head.step)
			sink_write(d->sink, &w->calls[i]);
	w->count = 0;
}

static void write_call(struct decoder *d, const void *record)
{
	struct event_api_call e;
	struct cupti_times times;
	if (!cupti_decode_api(d->settings->layout, record, &e, &times))
		return;
	struct waiting *w = &d->waiting[(e.thread * 0x9e3779b1u) >> 26];
	_Static_assert(WAITING == 1u << 6, "the index above has 6 bits");
	int wanted = d->settings->all_calls || calls_wanted(e.domain, e.cbid);
	/* A thread's calls come in the order in which they end. A call that encloses others has the same correlation
	 * id, and comes after them. */
	int inside = w->count && w->thread == e.thread && w->correlation == e.correlation;
	if (inside && wanted && e.domain == CALLS_RUNTIME)
		w->count = 0;
	else if (!inside)
		waiting_write(d, w);
	if (!wanted)
		return;
	pair_call(d, e.correlation, times.start);
	latest(&last_record, times.start);
	int kept = host_step(d, &e.head, times.start, &e.start);
	e.duration = span(d, e.start, times.end);
	e.name = kept ? call_name(d, e.domain, e.cbid) : 0;
	uint32_t number = e.thread;
	e.thread = thread_numbers_tid(number);
	if (kept)
		known_thread(e.thread);
	if (e.domain == CALLS_DRIVER && !d->settings->all_calls && w->count < WAITING_CALLS) {
		/* A call that is not kept waits as well: a later call with the same id is then known to enclose it. */
		w->thread = number;
		w->correlation = e.correlation;
		w->calls[w->count++] = e;
	} else if (kept) {
		sink_write(d->sink, &e);
	}
}

static void write_sync(struct decoder *d, const void *record)
{
	struct event_sync e;
	struct cupti_times times;
	if (!cupti_decode_sync(d->settings->layout, record, &e, &times))
		return;
	if (e.kind == SYNC_OF_CONTEXT && times.end)
		earliest(&first_wait, times.end);
	if (!host_step(d, &e.head, times.start, &e.start))
		return;
	e.duration = span(d, e.start, times.end);
	sink_write(d->sink, &e);
}

static void write_event(struct decoder *d, const void *record)
{
	struct event_cuda_event e;
	struct cupti_times times;
	if (!cupti_decode_cuda_event(d->settings->layout, record, &e, &times) || !d->from)
		return;
	/* The event mostly has no time. Then only its call tells the step. */
	if (times.start ? !host_step(d, &e.head, times.start, &e.time) : d->stale || sink_record_end() != 0)
		return;
	sink_write(d->sink, &e);
}

static void write_memory(struct decoder *d, const void *record, int pool)
{
	struct event_allocation e;
	struct cupti_times times;
	if (!(pool ? cupti_decode_pool : cupti_decode_memory)(d->settings->layout, record, &e, &times) ||
	    !host_step(d, &e.head, times.start, &e.time))
		return;
	sink_write(d->sink, &e);
}

static void write_unified(struct decoder *d, const void *record)
{
	struct event_unified_memory e;
	struct cupti_times times;
	if (!cupti_decode_unified_memory(d->settings->layout, record, &e, &times) ||
	    !host_step(d, &e.head, times.start, &e.start))
		return;
	e.duration = span(d, e.start, times.end);
	sink_write(d->sink, &e);
}

static void write_overhead(struct decoder *d, const void *record)
{
	struct event_overhead e;
	struct cupti_times times;
	if (!cupti_decode_overhead(d->settings->layout, record, &e, &times) ||
	    !host_step(d, &e.head, times.start, &e.start))
		return;
	e.duration = span(d, e.start, times.end);
	e.thread = e.thread ? thread_numbers_tid(e.thread) : 0;
	sink_write(d->sink, &e);
}

void decoder_write(void *user, const void *record)
{
	struct decoder *d = user;
	switch (cupti_record_kind(record)) {
	case CUPTI_KIND_CONCURRENT_KERNEL:
	case CUPTI_KIND_KERNEL:
		write_kernel(d, record);
		break;
	case CUPTI_KIND_RUNTIME:
	case CUPTI_KIND_DRIVER:
		write_call(d, record);
		break;
	case CUPTI_KIND_MEMCPY:
		write_copy(d, record, 0);
		break;
	case CUPTI_KIND_MEMCPY2:
		write_copy(d, record, 1);
		break;
	case CUPTI_KIND_MEMSET:
		write_set(d, record);
		break;
	case CUPTI_KIND_GRAPH_TRACE:
		write_graph(d, record);
		break;
	case CUPTI_KIND_SYNCHRONIZATION:
		write_sync(d, record);
		break;
	case CUPTI_KIND_CUDA_EVENT:
		write_event(d, record);
		break;
	case CUPTI_KIND_OVERHEAD:
		write_overhead(d, record);
		break;
	case CUPTI_KIND_MEMORY2:
		write_memory(d, record, 0);
		break;
	case CUPTI_KIND_MEMORY_POOL:
		write_memory(d, record, 1);
		break;
	case CUPTI_KIND_UNIFIED_MEMORY_COUNTER:
		write_unified(d, record);
		break;
	case CUPTI_KIND_DEVICE:
	case CUPTI_KIND_CONTEXT:
	case CUPTI_KIND_STREAM:
	case CUPTI_KIND_MODULE:
		known_record(d->settings->layout, record);
		break;
	default:
		break;
	}
}

/* ---------------------------------------------------------------- a session */

void decoder_begin(void)
{
	atomic_store_explicit(&skew, 0, memory_order_relaxed);
	for (unsigned i = 0; i < DEVICES; i++)
		atomic_store_explicit(&first_work[i], 0, memory_order_relaxed);
	atomic_store_explicit(&first_wait, 0, memory_order_relaxed);
	atomic_store_explicit(&last_record, 0, memory_order_relaxed);
}

void decoder_join(struct decoder *d, const struct deliver_settings *settings, struct sink_thread *sink,
		  uint32_t generation)
{
	d->settings = settings;
	d->sink = sink;
	d->from = sink_record_start();
	d->now = sink_now();
	d->buffer++;
	/* There may be newer readings of the clock. */
	d->cursor = (struct clock_cursor){0};
	if (d->generation == generation)
		return;
	d->generation = generation;
	d->early = 0;
	memset(d->names, 0, sizeof d->names);
	memset(d->waiting, 0, sizeof d->waiting);
	memset(d->pairs, 0, sizeof d->pairs);
}

void decoder_write_waiting(struct decoder *d)
{
	for (struct waiting *w = d->waiting; w < d->waiting + WAITING; w++)
		waiting_write(d, w);
}

/* CLOCK_MONOTONIC ns, 0 for 0. */
static uint64_t time_of(_Atomic uint64_t *ticks)
{
	struct clock_cursor cursor = {0};
	uint64_t value = atomic_load_explicit(ticks, memory_order_relaxed);
	return value ? clock_convert(&cursor, value) : 0;
}

/* A device's first recorded operation waited for everything that was launched there before it. */
uint64_t decoder_known_from(void)
{
	uint64_t from = 0, waited = time_of(&first_wait);
	for (unsigned i = 0; i < DEVICES; i++) {
		uint64_t time = time_of(&first_work[i]);
		if (time > from)
			from = time;
	}
	return !waited || (from && from < waited) ? from : waited;
}

uint64_t decoder_last(void)
{
	return time_of(&last_record);
}
