/* test_agent_cupti.c - the parts of the cupti collector one by one, without a GPU and without a simulator: a clock that this file
 * plays, buffers, the guard's thread, and records that are walked into a real segment. */
#include "agent/cupti/api.h"
#include "agent/cupti/buffers.h"
#include "agent/cupti/calls.h"
#include "agent/cupti/clock.h"
#include "agent/cupti/deliver.h"
#include "agent/cupti/guard.h"
#include "agent/core/life.h"
#include "agent/sink/control.h"
#include "proto/limits.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MS 1000000u

static void rest(uint64_t ns)
{
	struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
	nanosleep(&time, NULL);
}

/* ---------------------------------------------------------------- the clock */

/* CUPTI's time as this file wants it: line by line, each from a CLOCK_MONOTONIC time on. */
static struct {
	uint64_t from;
	double rate; /* ticks a ns */
	uint64_t ticks;
} lines[4];
static unsigned line_count;

static uint64_t ticks_at(uint64_t time)
{
	unsigned i = line_count - 1;
	while (i > 0 && time < lines[i].from)
		i--;
	return lines[i].ticks + (uint64_t)(int64_t)((double)(int64_t)(time - lines[i].from) * lines[i].rate);
}

static int read_ticks(uint64_t *ret)
{
	*ret = ticks_at(sink_now());
	return 0;
}

static void line(double rate, int64_t jump)
{
	uint64_t now = sink_now(), ticks = line_count ? ticks_at(now) + (uint64_t)jump : 700000000000000000u;
	lines[line_count].from = now;
	lines[line_count].rate = rate;
	lines[line_count++].ticks = ticks;
}

static void run_clock(unsigned ms)
{
	for (unsigned i = 0; i < ms; i++) {
		rest(MS);
		assert_int_equal(clock_sample(0), 0);
	}
}

/* How far off the conversion of a time is. */
static uint64_t off(uint64_t time)
{
	struct clock_cursor cursor = {0};
	uint64_t got = clock_convert(&cursor, ticks_at(time));
	return got > time ? got - time : time - got;
}

static void test_any_even_clock(void **state)
{
	(void)state;
	static const double rates[] = {1, 2.894123, 0.024, 1.0002};
	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
		int stepped, silent;
		line_count = 0;
		line(rates[i], 0);
		assert_int_equal(clock_begin(read_ticks), 0);
		uint64_t from = sink_now();
		run_clock(30);
		uint64_t until = sink_now(), error = clock_error(&stepped, &silent);
		assert_false(stepped);
		/* A tick is up to 42 ns here. */
		for (uint64_t t = from + 2 * MS; t < until; t += 137931)
			assert_true(off(t) <= error + 100);
		assert_true(error < 5 * MS);
	}
}

static void test_a_clock_that_jumps(void **state)
{
	(void)state;
	static const int64_t jumps[] = {2000000000, -500000000, 300000};
	for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
		int stepped, silent;
		line_count = 0;
		line(1, 0);
		assert_int_equal(clock_begin(read_ticks), 0);
		uint64_t from = sink_now();
		run_clock(20);
		uint64_t at = sink_now();
		line(1, jumps[i]);
		run_clock(20);
		uint64_t jump = (uint64_t)(jumps[i] < 0 ? -jumps[i] : jumps[i]), error = clock_error(&stepped, &silent);
		assert_true(stepped);
		assert_true(error > jump / 2 && error < jump + 5 * MS);
		/* Well away from it times are as good as before. */
		for (uint64_t t = from + 2 * MS; t < at - 2 * MS; t += 500000)
			assert_true(off(t) < MS);
		for (uint64_t t = at + 5 * MS; t < sink_now(); t += 500000)
			assert_true(off(t) < MS);
	}
}

static void test_a_clock_that_changes_its_rate(void **state)
{
	(void)state;
	int stepped, silent;
	line_count = 0;
	line(1, 0);
	assert_int_equal(clock_begin(read_ticks), 0);
	run_clock(20);
	line(3, 0);
	run_clock(30);
	clock_error(&stepped, &silent);
	assert_true(stepped);
	assert_true(off(sink_now() - 5 * MS) < MS);
}

/* ---------------------------------------------------------------- buffers */

static void test_whose_a_buffer_is(void **state)
{
	(void)state;
	static uint8_t foreign[4096] __attribute__((aligned(8)));
	uint32_t generation, written, held;
	size_t bytes;
	assert_int_equal(buffers_begin(7), 0);
	buffers_stock(1);
	held = buffers_held(&written);
	uint8_t *data = buffers_take(&bytes);
	assert_non_null(data);
	assert_true(bytes >= 1 << 20 && (uintptr_t)data % 8 == 0);
	assert_int_equal(buffers_held(&written), held + 1);
	assert_int_equal(written, 0);
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(data[i], 0);
	memset(data, 1, 500);
	buffers_held(&written);
	assert_int_equal(written, 1);
	assert_int_equal(buffers_receive(foreign, &generation), -1);
	assert_int_equal(buffers_receive(data + 8, &generation), -1);
	assert_int_equal(buffers_receive(data, &generation), 1);
	assert_int_equal(generation, 7);
	/* It comes twice. */
	assert_int_equal(buffers_receive(data, &generation), 0);
	buffers_give(data, 500);
	assert_int_equal(buffers_receive(data, &generation), 0);
	uint8_t *again = buffers_take(&bytes);
	assert_ptr_equal(again, data);
	for (size_t i = 0; i < 500; i++)
		assert_int_equal(again[i], 0);
	assert_int_equal(buffers_receive(again, &generation), 1);
	buffers_give(again, 0);
}

static void test_what_cupti_keeps(void **state)
{
	(void)state;
	uint32_t generation, written, at = 0;
	size_t bytes;
	assert_int_equal(buffers_begin(8), 0);
	uint8_t *kept = buffers_take(&bytes), *empty = buffers_take(&bytes);
	memset(kept, 1, 100);
	const uint8_t *copy = buffers_collect(&at, &bytes, &generation);
	assert_non_null(copy);
	assert_memory_equal(copy, kept, bytes);
	assert_int_equal(generation, 8);
	assert_null(buffers_collect(&at, &bytes, &generation));
	/* Late in the same session: it is written already, and free again. In a later one: what has come since is read. */
	assert_int_equal(buffers_receive(kept, &generation), 0);
	assert_int_equal(buffers_receive(empty, &generation), 1);
	buffers_give(empty, 0);
	kept = buffers_take(&bytes);
	memset(kept, 1, 100);
	at = 0;
	assert_non_null(buffers_collect(&at, &bytes, &generation));
	assert_int_equal(buffers_begin(9), 0);
	assert_int_equal(buffers_receive(kept, &generation), 1);
	assert_int_equal(generation, 8);
	buffers_give(kept, SIZE_MAX);
	assert_int_equal(buffers_held(&written), 0);
}

static void test_the_pool_has_an_end(void **state)
{
	(void)state;
	static uint8_t *taken[8192];
	uint32_t generation, n = 0;
	size_t bytes, sum = 0;
	assert_int_equal(buffers_begin(10), 0);
	assert_false(buffers_scarce());
	for (; n < 8192 && (taken[n] = buffers_take(&bytes)); n++)
		sum += bytes;
	assert_true(n < 8192 && sum >= (size_t)256 << 20 && sum <= (size_t)512 << 20);
	assert_int_equal(bytes, 0);
	assert_true(buffers_scarce());
	/* Who must have one all the same gets a piece that is nobody's to read. */
	uint8_t *scratch = buffers_scratch(&bytes);
	assert_true(scratch && bytes >= 512 && (uintptr_t)scratch % 8 == 0);
	assert_int_equal(buffers_receive(scratch, &generation), 0);
	assert_ptr_equal(buffers_scratch(&bytes), scratch);
	/* Memory is what was written to, not what could be. */
	assert_true(buffers_bytes() < sum / 4);
	uint64_t before = buffers_bytes();
	memset(taken[n - 1], 1, 4096);
	assert_int_equal(buffers_bytes(), before + 4096);
	memset(taken[n - 1], 0, 4096);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(buffers_receive(taken[i], &generation), 1);
		buffers_give(taken[i], 0);
	}
	assert_false(buffers_scarce());
	buffers_trim();
	assert_int_equal(buffers_bytes(), 0);
	assert_non_null(taken[0] = buffers_take(&bytes));
	assert_int_equal(buffers_receive(taken[0], &generation), 1);
	buffers_give(taken[0], 0);
}

/* What the thread that launches pays for a buffer, of which one holds thousands of launches. */
static void test_cost_of_a_buffer(void **state)
{
	(void)state;
	uint32_t generation;
	size_t bytes;
	uint64_t least = UINT64_MAX;
	assert_int_equal(buffers_begin(12), 0);
	buffers_stock(1);
	for (int i = 0; i < 1000; i++) {
		uint64_t from = sink_now();
		uint8_t *data = buffers_take(&bytes);
		uint64_t spent = sink_now() - from;
		least = spent < least ? spent : least;
		assert_int_equal(buffers_receive(data, &generation), 1);
		buffers_give(data, 0);
	}
	print_message("a buffer: %llu ns, the clock's own time included\n", (unsigned long long)least);
	assert_true(least < 100000);
}

static void *take_and_give(void *unused)
{
	(void)unused;
	for (int i = 0; i < 20000; i++) {
		uint32_t generation;
		size_t bytes;
		uint8_t *data = buffers_take(&bytes);
		if (!data)
			return "none left";
		uint64_t *mark = (uint64_t *)(void *)data;
		if (*mark)
			return "it has something in it";
		*mark = (uint64_t)(uintptr_t)&bytes;
		if (*mark != (uint64_t)(uintptr_t)&bytes)
			return "two had it";
		if (buffers_receive(data, &generation) != 1)
			return "it was somebody else's";
		buffers_give(data, sizeof *mark);
	}
	return NULL;
}

static void test_threads_do_not_share_a_buffer(void **state)
{
	(void)state;
	pthread_t threads[4];
	assert_int_equal(buffers_begin(11), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, NULL), 0);
	for (int i = 0; i < 4; i++) {
		void *wrong;
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
}

/* ---------------------------------------------------------------- the guard */

static _Atomic int let_go, cleaned;

static int answer(void *argument)
{
	return *(int *)argument;
}

static int hang(void *unused)
{
	(void)unused;
	while (!let_go)
		rest(MS);
	return 5;
}

static void clean(void)
{
	cleaned++;
}

static void test_the_guard_runs_jobs(void **state)
{
	(void)state;
	int forty = 40, result = 0;
	assert_int_equal(guard_post(answer, &forty), -ESRCH);
	assert_int_equal(guard_start(), 0);
	assert_int_equal(guard_start(), 0);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(guard_post(answer, &forty), 0);
		assert_int_equal(guard_wait(5000000000u, &result), 0);
		assert_int_equal(result, 40);
	}
	guard_stop();
	assert_int_equal(guard_start(), 0);
	guard_stop();
}

static void test_a_job_that_hangs(void **state)
{
	(void)state;
	let_go = cleaned = 0;
	assert_int_equal(guard_start(), 0);
	assert_int_equal(guard_post(hang, NULL), 0);
	assert_int_equal(guard_post(hang, NULL), -EBUSY);
	uint64_t from = sink_now();
	assert_true(guard_busy() > 0 && guard_busy() < 20 * MS);
	assert_int_equal(guard_wait(20 * MS, NULL), -ETIMEDOUT);
	assert_true(sink_now() - from >= 20 * MS);
	/* Nobody looked meanwhile: that the machine was slow is not the call's fault. */
	rest(100 * MS);
	assert_true(guard_busy() <= 50 * MS);
	assert_int_equal(guard_abandon(clean), 1);
	assert_int_equal(guard_start(), -EBUSY);
	assert_int_equal(guard_post(hang, NULL), -ESRCH);
	assert_int_equal(cleaned, 0);
	let_go = 1;
	for (int i = 0; i < 5000 && guard_start() == -EBUSY; i++)
		rest(MS);
	assert_int_equal(cleaned, 1);
	assert_int_equal(guard_start(), 0);
	assert_int_equal(guard_abandon(clean), 0);
	guard_stop();
}

/* ---------------------------------------------------------------- names of calls */

static int name_of(unsigned domain, uint32_t cbid, const char **ret)
{
	static const char *const runtime[] = {NULL, "cudaLaunchKernel_v7000", "cudaGetDevice_v3020",
					      "__cudaLaunchKernel_ptsz_v13000", "cudaMemcpyAsync_ptsz_v7000"};
	static const char *const driver[] = {NULL, "cuMemAlloc_v2", "cuCtxGetCurrent", NULL, "cuLaunchKernelEx"};
	const char *const *names = domain == CALLS_RUNTIME ? runtime : driver;
	*ret = cbid < 5 ? names[cbid] : NULL;
	return *ret ? 0 : 1;
}

static void test_calls(void **state)
{
	(void)state;
	uint32_t bytes;
	cupti_api.callback_name = name_of;
	calls_learn();
	assert_int_equal(calls_end(CALLS_RUNTIME), 5);
	assert_int_equal(calls_end(CALLS_DRIVER), 5);
	assert_true(calls_wanted(CALLS_RUNTIME, 1) && calls_wanted(CALLS_RUNTIME, 3) && calls_wanted(CALLS_RUNTIME, 4));
	assert_false(calls_wanted(CALLS_RUNTIME, 2));
	assert_true(calls_wanted(CALLS_DRIVER, 1) && calls_wanted(CALLS_DRIVER, 4));
	assert_false(calls_wanted(CALLS_DRIVER, 2));
	/* Unknown ones are not left out. */
	assert_true(calls_wanted(CALLS_DRIVER, 3) && calls_wanted(CALLS_DRIVER, 70000) && calls_wanted(9, 1));
	const char *name = calls_name(CALLS_RUNTIME, 1, &bytes);
	assert_memory_equal(name, "cudaLaunchKernel", bytes);
	assert_int_equal(bytes, strlen("cudaLaunchKernel"));
	calls_name(CALLS_RUNTIME, 3, &bytes);
	assert_int_equal(bytes, strlen("cudaLaunchKernel_ptsz"));
	calls_name(CALLS_DRIVER, 1, &bytes);
	assert_int_equal(bytes, strlen("cuMemAlloc_v2"));
	assert_null(calls_name(CALLS_DRIVER, 3, &bytes));
	assert_null(calls_name(9, 1, &bytes));
}

/* ---------------------------------------------------------------- records into the segment */

/* Offsets of the members that are set here. */
enum {
#define CUPTI_FIELD(NAME, member, offset, type, from) at_##NAME##_##member = (offset),
#include "agent/cupti/records.def"
};

static struct cupti_layout layout;
static struct segment producer, consumer;
static uint32_t generation;

static int next_record(uint8_t *data, size_t valid, void **record)
{
	uint8_t *at = *record;
	at = at ? at + cupti_layout_size(&layout, cupti_record_kind(at)) : data;
	if (at >= data + valid)
		return CUPTI_RESULT_NO_MORE;
	if (!cupti_layout_size(&layout, cupti_record_kind(at)))
		return CUPTI_RESULT_INVALID_KIND;
	*record = at;
	return 0;
}

static void put(uint8_t *record, size_t offset, uint64_t value, size_t bytes)
{
	memcpy(record + offset, &value, bytes);
}

static uint8_t *add_kernel(uint8_t *at, uint32_t correlation, uint64_t start, uint64_t end, const char *name)
{
	memset(at, 0, cupti_layout_size(&layout, CUPTI_KIND_CONCURRENT_KERNEL));
	put(at, 0, CUPTI_KIND_CONCURRENT_KERNEL, 4);
	put(at, at_CONCURRENT_KERNEL_start, start, 8);
	put(at, at_CONCURRENT_KERNEL_end, end, 8);
	put(at, at_CONCURRENT_KERNEL_correlationId, correlation, 4);
	put(at, at_CONCURRENT_KERNEL_name, (uintptr_t)name, 8);
	return at + cupti_layout_size(&layout, CUPTI_KIND_CONCURRENT_KERNEL);
}

static uint8_t *add_call(uint8_t *at, uint32_t kind, uint32_t cbid, uint32_t correlation, uint32_t thread,
			 uint64_t start, uint64_t end)
{
	memset(at, 0, cupti_layout_size(&layout, kind));
	put(at, 0, kind, 4);
	put(at, at_RUNTIME_start, start, 8);
	put(at, at_RUNTIME_end, end, 8);
	put(at, at_RUNTIME_cbid, cbid, 4);
	put(at, at_RUNTIME_correlationId, correlation, 4);
	put(at, at_RUNTIME_threadId, thread, 4);
	return at + cupti_layout_size(&layout, kind);
}

/* What has arrived. */
static struct event_kernel kernels[256];
static struct event_api_call calls[256];
static uint32_t kernel_count, call_count;

static void consume(uint32_t i)
{
	static unsigned char copy[LIMIT_CHUNK_BYTES];
	uint32_t sequence, thread;
	uint32_t n = segment_copy_chunk(&consumer, i, copy, &sequence, &thread);
	size_t at = 0;
	union event_any e;
	while (event_read(copy, n, &at, &e) == EVENT_OK) {
		if (e.head.kind == EVENT_KERNEL && kernel_count < 256)
			kernels[kernel_count++] = e.kernel;
		if (e.head.kind == EVENT_API_CALL && call_count < 256)
			calls[call_count++] = e.api_call;
	}
	segment_free_chunk(&consumer, i);
}

static void begin(int all_calls)
{
	struct deliver_settings settings = {&layout, all_calls, 0, NULL};
	assert_int_equal(cupti_layout_choose(&layout, 22), 0);
	cupti_api.next_record = next_record;
	line_count = 0;
	line(1, 0);
	assert_int_equal(segment_create(&consumer, 1, 64 << 20, LIMIT_CHUNK_BYTES), 0);
	assert_int_equal(segment_provide(&consumer, consumer.chunk_count, 1 << 20), 0);
	assert_int_equal(segment_map(&producer, dup(consumer.fd), UINT64_MAX), 0);
	kernel_count = call_count = 0;
	assert_int_equal(sink_prepare(&producer, ++generation, 0), 0);
	assert_int_equal(clock_begin(read_ticks), 0);
	deliver_begin(&settings);
	sink_populate();
	run_clock(5);
}

static void *finish_thread(void *unused)
{
	(void)unused;
	return (void *)(uintptr_t)sink_finish(sink_now(), sink_now() + 1000000000u);
}

static void finish(struct deliver_counts *counts)
{
	pthread_t thread;
	void *stuck = NULL;
	sink_end(sink_now());
	sink_drain();
	deliver_end(sink_now() + 1000 * MS, counts);
	assert_int_equal(pthread_create(&thread, NULL, finish_thread, NULL), 0);
	pthread_join(thread, &stuck);
	assert_null(stuck);
	sink_release();
	segment_deinit(&producer);
	for (uint32_t i = 0; i < consumer.chunk_count; i++)
		if (atomic_load(&consumer.table[i].state) == CHUNK_FULL)
			consume(i);
}

static uint64_t lost(enum loss loss, unsigned kind)
{
	return atomic_load(&consumer.header->lost[loss][kind]);
}

static void test_what_is_kept_back(void **state)
{
	(void)state;
	static uint8_t buffer[65536] __attribute__((aligned(8)));
	struct deliver_counts counts;
	begin(0);
	uint64_t before = sink_now();
	/* Before the recording nothing is written. */
	uint8_t *at = add_kernel(buffer, 1, ticks_at(before - 1000), ticks_at(before), "early");
	deliver_buffer(buffer, (size_t)(at - buffer), 0);
	run_clock(3);
	sink_begin(sink_now());
	uint64_t start = sink_record_start();
	run_clock(3);
	sink_next_step(2, sink_now());
	run_clock(3);
	at = buffer;
	at = add_kernel(at, 2, ticks_at(before - 200 * MS), ticks_at(before - 100 * MS), "ended before");
	/* It may have been under way as the recording began: the daemon finds that out. */
	at = add_kernel(at, 9, ticks_at(before - 200 * MS), ticks_at(start + MS), "launched before");
	at = add_kernel(at, 3, ticks_at(start - 500000), ticks_at(start + MS), "launched before, maybe");
	at = add_call(at, CUPTI_KIND_RUNTIME, 1, 4, 77, ticks_at(before), ticks_at(start + MS));
	at = add_call(at, CUPTI_KIND_RUNTIME, 1, 5, 77, ticks_at(start + MS), ticks_at(start + MS + 500));
	at = add_kernel(at, 6, 0, 0, "without times");
	at = add_kernel(at, 7, ticks_at(start + MS), 0, "without an end");
	at = add_kernel(at, 8, ticks_at(start + MS), ticks_at(start + 2 * MS), NULL);
	at = add_call(at, CUPTI_KIND_RUNTIME, 1, 8, 77, ticks_at(start + MS + 5000), ticks_at(start + 2 * MS));
	deliver_buffer(buffer, (size_t)(at - buffer), 0);
	/* The same out of an earlier session: of what has no times nothing is ours. */
	deliver_buffer(buffer, (size_t)(at - buffer), 1);
	finish(&counts);
	assert_int_equal(counts.records, 1 + 9 + 9);
	assert_int_equal(kernel_count, 5 + 3);
	assert_int_equal(kernels[0].correlation, 9);
	assert_true(kernels[0].start < start && kernels[0].duration > 200 * MS);
	assert_int_equal(kernels[1].correlation, 3);
	assert_int_equal(kernels[2].head.flags, EVENT_FLAG_TIMELESS);
	assert_int_equal(kernels[2].start, 0);
	assert_int_equal(kernels[3].head.flags, EVENT_FLAG_UNFINISHED);
	assert_true(kernels[3].duration > 0);
	assert_true(kernels[4].start > start + MS - 100000 && kernels[4].start < start + MS + 100000);
	assert_int_equal(kernels[4].name, 0);
	assert_int_equal(call_count, 4);
	assert_int_equal(calls[0].correlation, 5);
	assert_int_equal(calls[0].thread, 77);
	assert_int_equal(calls[0].head.step, 1);
	assert_int_equal(lost(LOSS_TIMELESS, EVENT_KERNEL), 1);
	assert_int_equal(lost(LOSS_UNFINISHED, EVENT_KERNEL), 1);
	assert_int_equal(counts.early, 2);
	/* The first work of the device that is known of, and the last record. */
	assert_true(counts.known_from > before - 201 * MS && counts.known_from < before - 199 * MS);
	assert_true(counts.last > start + MS && counts.last < start + 2 * MS);
	segment_deinit(&consumer);
}

static void test_calls_inside_of_calls(void **state)
{
	(void)state;
	static uint8_t buffer[65536] __attribute__((aligned(8)));
	struct deliver_counts counts;
	begin(0);
	sink_begin(sink_now());
	uint64_t start = sink_record_start() + 1000000;
	run_clock(5);
	uint8_t *at = buffer;
	/* Four driver calls: one inside a runtime call, with calls of other threads between the two records; one by itself; one
	 * inside a runtime call that nobody wants; one inside a runtime call whose record comes in the next buffer. */
	at = add_call(at, CUPTI_KIND_DRIVER, 4, 1, 10, ticks_at(start + 100), ticks_at(start + 200));
	at = add_call(at, CUPTI_KIND_DRIVER, 4, 2, 11, ticks_at(start + 100), ticks_at(start + 200));
	at = add_call(at, CUPTI_KIND_RUNTIME, 1, 1, 10, ticks_at(start + 50), ticks_at(start + 250));
	at = add_call(at, CUPTI_KIND_DRIVER, 4, 3, 10, ticks_at(start + 300), ticks_at(start + 310));
	at = add_call(at, CUPTI_KIND_RUNTIME, 2, 3, 10, ticks_at(start + 290), ticks_at(start + 320));
	at = add_call(at, CUPTI_KIND_DRIVER, 4, 4, 10, ticks_at(start + 400), ticks_at(start + 410));
	deliver_buffer(buffer, (size_t)(at - buffer), 0);
	at = add_call(buffer, CUPTI_KIND_RUNTIME, 1, 4, 10, ticks_at(start + 390), ticks_at(start + 420));
	at = add_call(at, CUPTI_KIND_DRIVER, 4, 5, 12, ticks_at(start + 500), ticks_at(start + 510));
	deliver_buffer(buffer, (size_t)(at - buffer), 0);
	finish(&counts);
	uint32_t domains[6] = {0};
	assert_int_equal(call_count, 5);
	for (uint32_t i = 0; i < call_count; i++) {
		assert_true(calls[i].correlation < 6 && !domains[calls[i].correlation]);
		domains[calls[i].correlation] = calls[i].domain;
	}
	assert_int_equal(domains[1], CALLS_RUNTIME);
	assert_int_equal(domains[2], CALLS_DRIVER);
	assert_int_equal(domains[3], CALLS_DRIVER);
	assert_int_equal(domains[4], CALLS_RUNTIME);
	assert_int_equal(domains[5], CALLS_DRIVER);
	segment_deinit(&consumer);
}

/* What a kernel and its call cost the thread that CUPTI delivers on. Printed; the bound is for any machine. */
static void test_cost_of_a_record(void **state)
{
	(void)state;
	enum { PAIRS = 4000, ROUNDS = 20 };
	static uint8_t buffer[2 << 20] __attribute__((aligned(8)));
	static char names[50][240];
	struct deliver_counts counts;
	begin(0);
	sink_begin(sink_now());
	uint64_t start = sink_record_start() + 1000000;
	run_clock(5);
	for (int i = 0; i < 50; i++)
		for (int k = 0; k < 239; k++)
			names[i][k] = (char)('A' + (i * 7 + k * 3 + k / 20) % 50);
	uint64_t best = UINT64_MAX;
	uint32_t id = 1;
	for (int round = 0; round < ROUNDS; round++) {
		uint8_t *at = buffer;
		for (int i = 0; i < PAIRS; i++, id++)
			at = add_kernel(at, id, ticks_at(start + (uint64_t)i), ticks_at(start + (uint64_t)i + 500),
					names[i % 50]);
		uint64_t from = sink_now();
		deliver_buffer(buffer, (size_t)(at - buffer), 0);
		uint64_t spent = sink_now() - from;
		best = spent < best ? spent : best;
	}
	finish(&counts);
	print_message("a kernel record of a name of 239 bytes: %.1f ns\n", (double)best / PAIRS);
	assert_int_equal(counts.records, PAIRS * ROUNDS);
	assert_true(best / PAIRS < 100000);
	segment_deinit(&consumer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_even_clock),
		cmocka_unit_test(test_a_clock_that_jumps),
		cmocka_unit_test(test_a_clock_that_changes_its_rate),
		cmocka_unit_test(test_whose_a_buffer_is),
		cmocka_unit_test(test_what_cupti_keeps),
		cmocka_unit_test(test_the_pool_has_an_end),
		cmocka_unit_test(test_cost_of_a_buffer),
		cmocka_unit_test(test_threads_do_not_share_a_buffer),
		cmocka_unit_test(test_the_guard_runs_jobs),
		cmocka_unit_test(test_a_job_that_hangs),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_what_is_kept_back),
		cmocka_unit_test(test_calls_inside_of_calls),
		cmocka_unit_test(test_cost_of_a_record),
	};
	if (!life_words || sink_init() < 0)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
