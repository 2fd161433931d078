/* deliver.c - see deliver.h. Facts of devices and threads are in known.c. */
#include "deliver.h"

#include "calls.h"
#include "clock.h"
#include "decode.h"
#include "known.h"

#include "../../proto/limits.h"
#include "agent/sink/sink.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Buffers that can be decoded at the same time; CUPTI has one worker, and a flush may deliver in its caller. */
#define DECODERS 6u
/* A reading of the clock for each buffer, but not more often than this. */
#define SAMPLE_NS 1000000u
/* Work that ended so long before the recording is left out, unless the device's clock turns out to be farther off. The first records
 * cannot show that yet, so a little too much is kept; derive removes it. */
#define BEFORE_NS 100000000u
/* A difference as large as this is no clock error. */
#define SKEW_MOST_NS 1000000000u
/* Devices for which we remember the first operation. */
#define DEVICES 64u
/* Threads, of which a driver call may wait for the runtime call around it. */
#define WAITING 64u
#define WAITING_CALLS 4u
/* Operations and calls that are held against each other at a time: powers of two. */
#define PAIRS 8192u
#define THREAD_NUMBERS 4096u
/* Names of kernels by address: direct-mapped. */
#define NAMES 256u
/* CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE */
#define SYNC_OF_CONTEXT 4u

struct waiting {
	uint32_t thread, correlation, count;
	struct event_api_call calls[WAITING_CALLS];
};

/* The start of the call and of the first device operation of a correlation id, in ticks; 0 = not seen. */
struct pair {
	uint32_t correlation;
	uint64_t call, operation;
};

/* CUPTI keeps the text of a name as long as it delivers records that point to it, and maybe no longer. So what we know of an address
 * holds for one buffer. */
struct named {
	const char *name;
	uint32_t buffer, id;
};

/* One thread's at a time, whoever has set `taken`. */
struct decoder {
	_Atomic uint32_t taken;
	uint32_t generation;
	struct sink_thread *sink;
	struct clock_cursor cursor;
	uint64_t from; /* first boundary; 0 = has not come */
	uint64_t now;
	int stale;
	uint64_t early;
	uint32_t buffer; /* number of the buffer that is being read */
	struct named kernels[NAMES];
	uint32_t names[2][CALLS_MOST]; /* string ids by domain and callback id */
	struct waiting waiting[WAITING];
	struct pair pairs[PAIRS];
};

static struct decoder decoders[DECODERS];
static struct deliver_settings settings;
static _Atomic uint64_t records;
/* Most ns by which an operation began before its call. */
static _Atomic uint64_t skew;
/* In CUPTI's ticks, 0 = none: the first operation of each device, the first end of a wait for all of a context's work, and
 * the last call or operation of all. */
static _Atomic uint64_t first_work[DEVICES], first_wait, last_record;
/* pthread_self() cut to 32 bits << 32 | tid */
static _Atomic uint64_t thread_numbers[THREAD_NUMBERS];

/* ---------------------------------------------------------------- threads */

static _Atomic uint64_t *number_slot(uint32_t number)
{
	return &thread_numbers[(number * 0x9e3779b1u) >> 20];
}
_Static_assert(THREAD_NUMBERS == 1u << 12, "the index above has 12 bits");

void deliver_thread_seen(void)
{
	if (!settings.pthread_numbers)
		return;
	uint32_t number = (uint32_t)(uintptr_t)pthread_self();
	uint64_t pair = (uint64_t)number << 32 | (uint32_t)syscall(SYS_gettid);
	atomic_store_explicit(number_slot(number), pair, memory_order_relaxed);
}

static uint32_t tid_of(uint32_t thread)
{
	if (!settings.pthread_numbers)
		return thread;
	uint64_t pair = atomic_load_explicit(number_slot(thread), memory_order_relaxed);
	return pair >> 32 == thread ? (uint32_t)pair : 0;
}

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

/* Converts the times into `start` and `duration`, and counts what is missing of them. Returns 0 where the operation is no part of the
 * recording. An operation without times, or one that may have run at the recording's beginning, is kept: its step is found later, by
 * its call or its time. */
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

/* Do the operation and its call, whichever came first, lie in the wrong order? Both in CUPTI's ticks, so that our own
 * conversion has no part in it. */
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
	if (!cupti_decode_kernel(settings.layout, record, &e, &times, &name))
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
	if (!(peer ? cupti_decode_peer_copy : cupti_decode_copy)(settings.layout, record, &e, &times))
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
	if (!cupti_decode_set(settings.layout, record, &e, &times))
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
	if (!cupti_decode_graph(settings.layout, record, &e, &times))
		return;
	pair_operation(d, e.device, e.correlation, times.start);
	if (!device_times(d, &e.head, &times, &e.start, &e.duration))
		return;
	sink_write(d->sink, &e);
}

/* ---------------------------------------------------------------- the host side */

/* Converts the start of a host event and finds its step. Returns 0 where it began outside of the recording. Where the clock's error
 * leaves the step in doubt, the event is flagged and counted. */
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
	/* A call that may belong to the first or the last step is kept: derive counts what it launched as doubtful. */
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
	if (!cupti_decode_api(settings.layout, record, &e, &times))
		return;
	struct waiting *w = &d->waiting[(e.thread * 0x9e3779b1u) >> 26];
	_Static_assert(WAITING == 1u << 6, "the index above has 6 bits");
	int wanted = settings.all_calls || calls_wanted(e.domain, e.cbid);
	/* A thread's calls come in the order in which they end. A call that encloses others has their id, and comes after them. */
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
	e.thread = tid_of(number);
	if (kept)
		known_thread(e.thread);
	if (e.domain == CALLS_DRIVER && !settings.all_calls && w->count < WAITING_CALLS) {
		/* One that is not kept waits as well: the call around it may have begun before the boundary. */
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
	if (!cupti_decode_sync(settings.layout, record, &e, &times))
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
	if (!cupti_decode_cuda_event(settings.layout, record, &e, &times) || !d->from)
		return;
	/* It mostly has no time. Then its call alone tells the step. */
	if (times.start ? !host_step(d, &e.head, times.start, &e.time) : d->stale || sink_record_end() != 0)
		return;
	sink_write(d->sink, &e);
}

static void write_memory(struct decoder *d, const void *record, int pool)
{
	struct event_allocation e;
	struct cupti_times times;
	if (!(pool ? cupti_decode_pool : cupti_decode_memory)(settings.layout, record, &e, &times) ||
	    !host_step(d, &e.head, times.start, &e.time))
		return;
	sink_write(d->sink, &e);
}

static void write_unified(struct decoder *d, const void *record)
{
	struct event_unified_memory e;
	struct cupti_times times;
	if (!cupti_decode_unified_memory(settings.layout, record, &e, &times) ||
	    !host_step(d, &e.head, times.start, &e.start))
		return;
	e.duration = span(d, e.start, times.end);
	sink_write(d->sink, &e);
}

static void write_overhead(struct decoder *d, const void *record)
{
	struct event_overhead e;
	struct cupti_times times;
	if (!cupti_decode_overhead(settings.layout, record, &e, &times) ||
	    !host_step(d, &e.head, times.start, &e.start))
		return;
	e.duration = span(d, e.start, times.end);
	e.thread = e.thread ? tid_of(e.thread) : 0;
	sink_write(d->sink, &e);
}

static void write_record(struct decoder *d, const void *record)
{
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
		known_record(settings.layout, record);
		break;
	default:
		break;
	}
}

/* ---------------------------------------------------------------- a buffer */

static int next_record(uint8_t *data, size_t valid, void **record)
{
	return settings.subscriber ? cupti_api.next_record_v2(settings.subscriber, data, valid, record)
				   : cupti_api.next_record(data, valid, record);
}

/* As next_record, by the layout where it knows the record. */
static int step_over(uint8_t *data, size_t valid, void **record)
{
	size_t size = cupti_layout_size(settings.layout, cupti_record_kind(*record));
	size_t at = (size_t)((uint8_t *)*record - data) + size;
	if (!size)
		return next_record(data, valid, record);
	if (at == valid)
		return CUPTI_RESULT_NO_MORE;
	if (at > valid || valid - at < sizeof(uint64_t) || !cupti_record_kind(data + at))
		return CUPTI_RESULT_INVALID_KIND;
	*record = data + at;
	return 0;
}

/* Is there a record at `at`? We believe it where several records follow each other from there, or where they end exactly with the
 * buffer: that does not happen by chance. */
static int is_record(uint8_t *at, uint8_t *data, size_t valid)
{
	enum { SURE = 4 };
	void *record = at;
	if (!cupti_layout_size(settings.layout, cupti_record_kind(at)))
		return 0;
	for (unsigned n = 1; n < SURE; n++) {
		int result = step_over(data, valid, &record);
		if (result)
			return result == CUPTI_RESULT_NO_MORE && (n > 1 || at == data);
	}
	return 1;
}

/* The next record that can be read, behind one that cannot, which lies at `at` or shortly before. NULL: there is none. */
static uint8_t *find_record(uint8_t *at, uint8_t *data, size_t valid)
{
	enum { FAR = 1024 };
	uint8_t *end = data + valid;
	for (uint8_t *far = at + FAR; at < far && end - at >= (ptrdiff_t)sizeof(uint64_t); at += sizeof(uint64_t))
		if (is_record(at, data, valid))
			return at;
	return NULL;
}

/* Calls `d`'s writers for each record, or nothing where d is NULL; returns how many there are. */
static uint64_t walk(struct decoder *d, uint8_t *data, size_t valid)
{
	uint64_t n = 0;
	void *record = NULL, *last = NULL;
	for (;; last = record) {
		int result = next_record(data, valid, &record);
		if (result) {
			/* What the library answers differs between releases. The layout mostly knows where the last record ended. */
			size_t size = last ? cupti_layout_size(settings.layout, cupti_record_kind(last)) : 0;
			uint8_t *at = last ? (uint8_t *)last + (size ? size : sizeof(uint64_t)) : data;
			if (result == CUPTI_RESULT_NO_MORE || at >= data + valid)
				break;
			record = find_record(at, data, valid);
			/* CUPTI may still be writing to this buffer: only zeros follow its last record then, which is no loss. */
			int nothing = !record && !cupti_record_kind(at);
			if (d && d->from && record != at && !nothing)
				sink_lost_many(LOSS_DRIVER, 0, 1);
			if (!record)
				break;
		}
		size_t at = (size_t)((uint8_t *)record - data);
		size_t size = cupti_layout_size(settings.layout, cupti_record_kind(record));
		if ((uint8_t *)record < data || at >= valid || size > valid - at)
			break;
		n++;
		if (d && size)
			write_record(d, record);
	}
	return n;
}

static struct decoder *decoder_take(void)
{
	for (unsigned round = 0; round < 1000; round++) {
		for (unsigned i = 0; i < DECODERS; i++) {
			uint32_t free = 0;
			if (!atomic_load_explicit(&decoders[i].taken, memory_order_relaxed) &&
			    atomic_compare_exchange_strong_explicit(&decoders[i].taken, &free, 1, memory_order_acquire,
								    memory_order_relaxed))
				return &decoders[i];
		}
		sched_yield();
	}
	return NULL;
}

static void decoder_give(struct decoder *d)
{
	atomic_store_explicit(&d->taken, 0, memory_order_release);
}

/* Forgets what belongs to an earlier recording. */
static void decoder_join(struct decoder *d, struct sink_thread *sink, uint32_t generation)
{
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

void deliver_buffer(uint8_t *data, size_t valid, int stale)
{
	struct sink_thread *sink = sink_enter_pop();
	struct decoder *d = sink ? decoder_take() : NULL;
	uint64_t n;
	if (d) {
		clock_sample(SAMPLE_NS);
		decoder_join(d, sink, sink_recording());
		d->stale = stale;
		n = walk(d, data, valid);
		decoder_give(d);
	} else {
		/* No decoder: a signal handler interrupted the recorder, or there are more threads than it follows, or nothing is recorded. */
		n = sink_recording() ? walk(NULL, data, valid) : 0;
		if (n && sink_record_start())
			sink_lost_many(LOSS_REENTERED, 0, n);
	}
	atomic_fetch_add_explicit(&records, n, memory_order_relaxed);
	if (sink)
		sink_leave(sink);
}

void deliver_none(uint8_t *data, size_t valid)
{
	sink_lost_many(LOSS_NO_SPACE, 0, walk(NULL, data, valid));
}

/* ---------------------------------------------------------------- a session */

void deliver_begin(const struct deliver_settings *wanted)
{
	settings = *wanted;
	atomic_store_explicit(&records, 0, memory_order_relaxed);
	atomic_store_explicit(&skew, 0, memory_order_relaxed);
	for (unsigned i = 0; i < DEVICES; i++)
		atomic_store_explicit(&first_work[i], 0, memory_order_relaxed);
	atomic_store_explicit(&first_wait, 0, memory_order_relaxed);
	atomic_store_explicit(&last_record, 0, memory_order_relaxed);
	known_begin();
}

/* CLOCK_MONOTONIC ns, 0 for 0. */
static uint64_t time_of(_Atomic uint64_t *ticks)
{
	struct clock_cursor cursor = {0};
	uint64_t value = atomic_load_explicit(ticks, memory_order_relaxed);
	return value ? clock_convert(&cursor, value) : 0;
}

/* A device's first recorded operation waited for everything that was launched there before it. */
static uint64_t known_from(uint64_t waited)
{
	uint64_t from = 0;
	for (unsigned i = 0; i < DEVICES; i++) {
		uint64_t time = time_of(&first_work[i]);
		if (time > from)
			from = time;
	}
	return !waited || (from && from < waited) ? from : waited;
}

void deliver_end(uint64_t deadline, struct deliver_counts *ret)
{
	*ret = (struct deliver_counts){
		.records = atomic_load_explicit(&records, memory_order_relaxed),
		.known_from = known_from(time_of(&first_wait)),
		.last = time_of(&last_record),
	};
	struct sink_thread *sink = sink_enter_pop();
	if (!sink)
		return;
	uint32_t generation = sink_recording();
	for (struct decoder *d = decoders; d < decoders + DECODERS; d++) {
		uint32_t free = 0;
		while (!atomic_compare_exchange_strong_explicit(&d->taken, &free, 1, memory_order_acquire,
								memory_order_relaxed)) {
			free = 0;
			if (sink_now() >= deadline)
				break;
			sched_yield();
		}
		if (free)
			continue;
		if (d->generation == generation) {
			d->sink = sink;
			for (struct waiting *w = d->waiting; w < d->waiting + WAITING; w++)
				waiting_write(d, w);
			ret->early += d->early;
			d->early = 0;
		}
		decoder_give(d);
	}
	known_write(sink);
	sink_leave(sink);
}
