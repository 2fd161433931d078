/* test_agent_sink.c - the recorder itself, without a job and without a daemon: threads, open ranges, names, losses. */
#include "agent/core/life.h"
#include "agent/enter.h"
#include "agent/sink/control.h"
#include "proto/limits.h"
#include "proto/message.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SOURCE RANGE_SOURCE_PROFD
#define MOST_EVENTS 65536

static struct segment producer, consumer;
static uint32_t generation;

/* What the consumer has seen. */
static struct event_range ranges[MOST_EVENTS];
static struct event_operator operators[1024];
static uint32_t range_count, operator_count, mark_count, thread_count, step_count;

static void consume(uint32_t i)
{
	static unsigned char copy[LIMIT_CHUNK_BYTES];
	uint32_t sequence, thread;
	uint32_t n = segment_copy_chunk(&consumer, i, copy, &sequence, &thread);
	size_t at = 0;
	union event_any e;
	while (event_read(copy, n, &at, &e) == EVENT_OK) {
		switch (e.head.kind) {
		case EVENT_RANGE:
			assert_true(range_count < MOST_EVENTS);
			ranges[range_count++] = e.range;
			break;
		case EVENT_OPERATOR:
			operators[operator_count++] = e.operator;
			break;
		case EVENT_MARK:
			mark_count++;
			break;
		case EVENT_STEP:
			step_count++;
			break;
		default:
			thread_count++;
		}
	}
	segment_free_chunk(&consumer, i);
}

static void consume_full(void)
{
	for (uint32_t i = 0; i < consumer.chunk_count; i++)
		if (atomic_load(&consumer.table[i].state) == CHUNK_FULL)
			consume(i);
}

static uint64_t lost(enum loss loss, unsigned kind)
{
	return atomic_load(&consumer.header->lost[loss][kind]);
}

static void begin(uint64_t bytes, uint32_t chunk_bytes, uint64_t max_events)
{
	assert_int_equal(segment_create(&consumer, 1, bytes, chunk_bytes), 0);
	assert_int_equal(segment_provide(&consumer, consumer.chunk_count, 1 << 20), 0);
	int fd = dup(consumer.fd);
	assert_true(fd >= 0);
	assert_int_equal(segment_map(&producer, fd, UINT64_MAX), 0);
	range_count = operator_count = mark_count = thread_count = step_count = 0;
	assert_int_equal(sink_prepare(&producer, ++generation, max_events), 0);
}

/* The agent has a thread of its own for this: it is never one that records. */
static void *finish_thread(void *end)
{
	return (void *)(uintptr_t)sink_finish(*(uint64_t *)end, sink_now() + 1000000000u);
}

static void finish_at(uint64_t end)
{
	pthread_t thread;
	void *stuck = NULL;
	assert_int_equal(pthread_create(&thread, NULL, finish_thread, &end), 0);
	pthread_join(thread, &stuck);
	assert_null(stuck);
}

static void finish(void)
{
	finish_at(sink_now());
	sink_release();
	segment_deinit(&producer);
	consume_full();
}

static void done(void)
{
	segment_deinit(&consumer);
}

static struct sink_frame *push(const char *name, uint64_t start)
{
	struct sink_thread *t = sink_enter(EVENT_RANGE);
	if (!t)
		return NULL;
	struct sink_frame *f = sink_open(t, EVENT_RANGE);
	if (f) {
		f->source = SOURCE;
		f->key = 1;
		f->name = sink_string(t, name, strlen(name), EVENT_RANGE);
		f->start = start;
	}
	sink_leave(t);
	return f;
}

static void pop(uint64_t end)
{
	struct sink_thread *t = sink_enter_pop();
	if (!t)
		return;
	struct sink_frame *f = sink_find(t, SOURCE, 1);
	if (f)
		sink_close(t, f, end);
	sink_leave(t);
}

static const struct event_range *find(uint64_t start)
{
	for (uint32_t i = 0; i < range_count; i++)
		if (ranges[i].start == start)
			return &ranges[i];
	fail_msg("no range starts at %llu", (unsigned long long)start);
	return NULL;
}

static void test_nesting_and_self_time(void **state)
{
	(void)state;
	begin(1 << 20, LIMIT_CHUNK_BYTES, 0);
	push("warm-up", 1); /* before the recording: thrown away, and no parent of anything */
	sink_begin(sink_now());
	push("outer", 100);
	push("a", 110);
	push("deep", 112);
	pop(115);
	pop(130);
	sink_next_step(2, sink_now());
	push("b", 140);
	pop(170);
	pop(200);
	pop(210); /* the warm-up's */
	pop(220); /* nobody's */
	finish();
	assert_int_equal(range_count, 4);
	const struct event_range *outer = find(100), *a = find(110), *deep = find(112), *b = find(140);
	assert_int_equal(outer->duration, 100);
	assert_int_equal(outer->self, 50);
	assert_int_equal(outer->parent, 0);
	assert_int_equal(a->self, 17);
	assert_int_equal(a->parent, outer->id);
	assert_int_equal(deep->self, 3);
	assert_int_equal(deep->parent, a->id);
	assert_int_equal(deep->depth, a->depth + 1);
	assert_int_equal(outer->head.step, 1);
	assert_int_equal(b->head.step, 2);
	assert_int_equal(b->head.size, 64);
	done();
}

/* What a device tells late is placed by its time, and said to be doubtful near a boundary. */
static void test_step_of_a_time(void **state)
{
	(void)state;
	int doubtful;
	begin(1 << 20, LIMIT_CHUNK_BYTES, 0);
	assert_int_equal(sink_record_start(), 0);
	assert_int_equal(sink_step_at(500, 0, &doubtful), 0);
	/* sink_begin reads the clock too, so that the boundaries lie around now. */
	uint64_t first = sink_now(), second = first + 1000, end = first + 3000;
	sink_begin(first);
	sink_next_step(2, second);
	assert_int_equal(sink_record_start(), first);
	assert_int_equal(sink_record_end(), 0);
	assert_int_equal(sink_step_at(first - 1, 0, &doubtful), 0);
	assert_int_equal(sink_step_at(first, 0, &doubtful), 1);
	assert_int_equal(sink_step_at(second - 1, 0, &doubtful), 1);
	assert_int_equal(sink_step_at(second, 0, &doubtful), 2);
	assert_int_equal(sink_step_at(end + 1000, 0, &doubtful), 2); /* the last step is still open */
	sink_end(end);
	assert_int_equal(sink_record_end(), end);
	assert_int_equal(sink_step_at(end - 1, 0, &doubtful), 2);
	assert_int_equal(sink_step_at(end, 0, &doubtful), 0);
	assert_int_equal(sink_step_at(second + 500, 499, &doubtful), 2);
	assert_false(doubtful);
	assert_int_equal(sink_step_at(second + 500, 500, &doubtful), 2);
	assert_true(doubtful);
	assert_int_equal(sink_step_at(second - 3, 3, &doubtful), 1);
	assert_true(doubtful);
	assert_int_equal(sink_step_at(end + 3, 3, &doubtful), 0);
	assert_true(doubtful);
	assert_int_equal(sink_step_at(first - 3, 2, &doubtful), 0);
	assert_false(doubtful);
	finish();
	done();
	/* The next recording knows nothing of it. */
	begin(1 << 20, LIMIT_CHUNK_BYTES, 0);
	assert_int_equal(sink_record_start(), 0);
	assert_int_equal(sink_record_end(), 0);
	finish();
	done();
}

/* A record of the device side may come without a step; any other of step 0 is thrown away. */
static void test_device_records_have_no_step_yet(void **state)
{
	(void)state;
	begin(1 << 20, LIMIT_CHUNK_BYTES, 0);
	sink_begin(sink_now());
	struct event_kernel kernel = {.head = {sizeof kernel, EVENT_KERNEL, 0, 0}, .start = 7};
	struct event_mark mark = {.head = {sizeof mark, EVENT_MARK, 0, 0}, .time = 7};
	struct sink_thread *t = sink_enter(EVENT_KERNEL);
	assert_non_null(t);
	assert_int_equal(sink_write(t, &kernel), 1);
	assert_int_equal(sink_write(t, &mark), 0);
	sink_leave(t);
	sink_lost_many(LOSS_DRIVER, 0, 41);
	assert_int_equal(consumer.header->lost[LOSS_DRIVER][0], 41);
	finish();
	assert_int_equal(mark_count, 0);
	done();
}

static void test_open_at_the_end_is_clipped(void **state)
{
	(void)state;
	begin(1 << 20, LIMIT_CHUNK_BYTES, 0);
	sink_begin(sink_now());
	uint64_t start = sink_now();
	push("open", start);
	sink_end(sink_now());
	push("too late", start + 1);
	assert_int_equal(sink_open_count(), 1);
	uint64_t end = sink_now();
	finish_at(end);
	consume_full();
	assert_int_equal(range_count, 1);
	assert_int_equal(ranges[0].head.flags, EVENT_FLAG_CLIPPED);
	assert_int_equal(ranges[0].duration, end - start);
	assert_int_equal(lost(LOSS_CLIPPED, EVENT_RANGE), 1);
	/* The late pop of a recording that is over. */
	pop(sink_now());
	sink_release();
	segment_deinit(&producer);
	done();
	begin(1 << 20, LIMIT_CHUNK_BYTES, 0);
	pop(sink_now());
	sink_begin(sink_now());
	pop(sink_now());
	finish();
	assert_int_equal(range_count, 0);
	done();
}

static void *close_elsewhere(void *frame)
{
	struct sink_thread *t = sink_enter_end(frame);
	assert_non_null(t);
	sink_close(t, frame, 500);
	sink_leave(t);
	return NULL;
}

static void test_closed_by_another_thread(void **state)
{
	(void)state;
	begin(1 << 20, LIMIT_CHUNK_BYTES, 0);
	sink_begin(sink_now());
	struct sink_thread *t = sink_enter(EVENT_OPERATOR);
	struct sink_frame *f = sink_open(t, EVENT_OPERATOR);
	f->start = 400;
	f->name = sink_string_static(t, "aten::wait", EVENT_OPERATOR);
	uint32_t tid = sink_tid(t);
	sink_leave(t);
	pthread_t other;
	assert_int_equal(pthread_create(&other, NULL, close_elsewhere, f), 0);
	pthread_join(other, NULL);
	/* It is off the stack when the owner comes by. */
	push("next", 600);
	pop(700);
	finish();
	assert_int_equal(operator_count, 1);
	assert_int_equal(operators[0].duration, 100);
	assert_int_equal(operators[0].thread, tid);
	assert_true(operators[0].end_thread != 0 && operators[0].end_thread != tid);
	assert_int_equal(operators[0].head.flags, EVENT_FLAG_ASYNC);
	assert_int_equal(find(600)->parent, 0);
	done();
}

/* torch keeps a pointer to a frame and ends it long after the recording. */
static void test_a_late_end_writes_nothing(void **state)
{
	(void)state;
	begin(1 << 20, LIMIT_CHUNK_BYTES, 0);
	sink_begin(sink_now());
	struct sink_thread *t = sink_enter(EVENT_OPERATOR);
	struct sink_frame *f = sink_open(t, EVENT_OPERATOR);
	f->start = sink_now();
	sink_leave(t);
	finish();
	assert_int_equal(operator_count, 1);
	assert_int_equal(operators[0].head.flags, EVENT_FLAG_CLIPPED);
	done();
	begin(1 << 20, LIMIT_CHUNK_BYTES, 0);
	sink_begin(sink_now());
	push("new", 10);
	t = sink_enter_end(f);
	assert_non_null(t);
	sink_close(t, f, sink_now());
	sink_leave(t);
	pop(30);
	finish();
	assert_int_equal(operator_count, 0);
	assert_int_equal(range_count, 1);
	assert_int_equal(ranges[0].depth, 0);
	done();
}

static void test_too_deep_is_counted(void **state)
{
	(void)state;
	begin(4 << 20, LIMIT_CHUNK_BYTES, 0);
	sink_begin(sink_now());
	for (int i = 0; i < SINK_DEPTH + 7; i++)
		push("deep", 1000 + (uint64_t)i);
	for (int i = 0; i < SINK_DEPTH + 7; i++)
		pop(9000 + (uint64_t)i);
	finish();
	assert_int_equal(range_count, SINK_DEPTH);
	assert_int_equal(lost(LOSS_TOO_DEEP, EVENT_RANGE), 7);
	done();
}

static void test_names_are_written_once(void **state)
{
	(void)state;
	begin(1 << 20, LIMIT_CHUNK_BYTES, 0);
	sink_begin(sink_now());
	static char huge[LIMIT_STRING_BYTES + 100];
	memset(huge, 'x', sizeof huge - 1);
	memcpy(huge + LIMIT_STRING_BYTES - 1, "\xc3\xa9", 2); /* a letter of two bytes across the limit */
	struct sink_thread *t = sink_enter(EVENT_RANGE);
	uint32_t a = sink_string(t, "name", 4, EVENT_RANGE);
	assert_true(a > 0);
	assert_int_equal(sink_string(t, "name", 4, EVENT_RANGE), a);
	assert_int_equal(sink_string_static(t, "name", EVENT_RANGE), a);
	assert_int_not_equal(sink_string(t, "nam", 3, EVENT_RANGE), a);
	uint32_t words[2] = {0x656d616e, 0};
	assert_int_not_equal(sink_inputs(t, words, 1, EVENT_OPERATOR), a);
	uint32_t cut = sink_string(t, huge, sizeof huge - 1, EVENT_RANGE);
	sink_leave(t);
	assert_int_equal(lost(LOSS_TRUNCATED, EVENT_RANGE), 1);
	static unsigned char text[LIMIT_STRING_BYTES];
	uint32_t at = 0, id, type, bytes, texts = 0;
	while (segment_next_string(&consumer, &at, text, &id, &type, &bytes) == 1) {
		texts += type == STRING_TEXT;
		if (id == a)
			assert_memory_equal(text, "name", 4);
		if (id == cut)
			assert_int_equal(bytes, LIMIT_STRING_BYTES - 1);
	}
	assert_int_equal(texts, 3);
	finish();
	done();
}

/* A thread that is taken off its processor in the middle of writing a name, here by a signal handler that waits, costs no
 * other thread a name; two that write the same names agree on them. */
#define ROUNDS 400
#define NAMES_ROUND 40
#define NAMES (ROUNDS * NAMES_ROUND)
static uint32_t name_ids[2][NAMES];
static _Atomic int stopped, resumed, enough;

static void wait_until(_Atomic int *what, int value)
{
	struct timespec nap = {0, 20000};
	for (int i = 0; i < 100000 && atomic_load(what) < value; i++)
		nanosleep(&nap, NULL);
}

static void stop_here(int number)
{
	(void)number;
	wait_until(&resumed, atomic_fetch_add(&stopped, 1) + 1);
}

/* Every other name is one that both threads have; the length differs from one to the next. */
static size_t name_of(int who, unsigned i, char name[64])
{
	return (size_t)snprintf(name, 64, "%s %u %.*s",
				i % 2 ? "both"
				: who ? "second"
				      : "first",
				i, (int)(i % 24), "........................");
}

static void intern_one(int who, unsigned i)
{
	char name[64];
	size_t n = name_of(who, i, name);
	struct sink_thread *t = sink_enter(EVENT_RANGE);
	uint32_t id = sink_string(t, name, n, EVENT_RANGE);
	sink_leave(t);
	if (name_ids[who][i] && name_ids[who][i] != id)
		abort();
	name_ids[who][i] = id;
}

static void *intern_for_ever(void *unused)
{
	for (unsigned i = 0; !atomic_load(&enough) || i < NAMES; i++)
		intern_one(1, i % NAMES);
	return unused;
}

static void test_an_interrupted_thread_costs_no_names(void **state)
{
	static unsigned char texts[LIMIT_STRINGS_BYTES / 8][64];
	static unsigned char text[LIMIT_STRING_BYTES];
	struct sigaction action = {.sa_handler = stop_here}, before;
	uint32_t at = 0, id, type, bytes;
	pthread_t other;
	char name[64];
	int more;
	(void)state;
	begin(1 << 20, LIMIT_CHUNK_BYTES, 0);
	assert_int_equal(segment_provide(&consumer, consumer.chunk_count, 4 << 20), 0);
	sink_begin(sink_now());
	sigaction(SIGUSR1, &action, &before);
	assert_int_equal(pthread_create(&other, NULL, intern_for_ever, NULL), 0);
	for (int round = 1; round <= ROUNDS; round++) {
		usleep(30);
		pthread_kill(other, SIGUSR1);
		wait_until(&stopped, round);
		for (unsigned i = 0; i < NAMES_ROUND; i++)
			intern_one(0, (unsigned)(round - 1) * NAMES_ROUND + i);
		atomic_store(&resumed, round);
	}
	atomic_store(&enough, 1);
	pthread_join(other, NULL);
	sigaction(SIGUSR1, &before, NULL);
	assert_int_equal(lost(LOSS_NAMELESS, EVENT_RANGE), 0);
	while ((more = segment_next_string(&consumer, &at, text, &id, &type, &bytes)) == 1) {
		assert_int_equal(type, STRING_TEXT);
		assert_true(bytes < sizeof texts[0] && id < sizeof texts / sizeof *texts);
		memcpy(texts[id], text, bytes);
	}
	assert_int_equal(more, 0);
	for (unsigned i = 0; i < 2 * NAMES; i++) {
		name_of((int)(i / NAMES), i % NAMES, name);
		assert_string_equal((const char *)texts[name_ids[i / NAMES][i % NAMES]], name);
	}
	for (unsigned i = 1; i < NAMES; i += 2)
		assert_int_equal(name_ids[0][i], name_ids[1][i]);
	finish();
	done();
}

/* What nobody finished is passed over at the end; what lies behind it is there. Room is taken by whoever comes. */
static void test_an_entry_that_is_never_finished(void **state)
{
	static unsigned char text[LIMIT_STRING_BYTES];
	_Atomic uint32_t tail = 0;
	uint32_t at = 0, id, type, bytes;
	(void)state;
	assert_int_equal(segment_create(&consumer, 1, 1 << 20, LIMIT_CHUNK_BYTES), 0);
	uint32_t first = segment_string_claim(&consumer, &tail, 5), second = segment_string_claim(&consumer, &tail, 3);
	assert_int_equal(first, SEGMENT_STRINGS_FIRST / 8);
	assert_int_equal(second, first + SEGMENT_STRING_SIZE(5) / 8);
	memcpy(consumer.strings + second * 8 + 8, "abc", 3);
	segment_string_finish(&consumer, second, 3, STRING_TEXT);
	segment_strings_publish(&consumer, 0);
	assert_int_equal(segment_next_string(&consumer, &at, text, &id, &type, &bytes), 0);
	segment_strings_publish(&consumer, 1);
	assert_int_equal(segment_next_string(&consumer, &at, text, &id, &type, &bytes), 1);
	assert_int_equal(type, STRING_VOID);
	assert_int_equal(segment_next_string(&consumer, &at, text, &id, &type, &bytes), 1);
	assert_true(id == second && type == STRING_TEXT && bytes == 3 && memcmp(text, "abc", 3) == 0);
	/* Too late. */
	segment_string_finish(&consumer, first, 5, STRING_TEXT);
	at = 0;
	assert_int_equal(segment_next_string(&consumer, &at, text, &id, &type, &bytes), 1);
	assert_int_equal(type, STRING_VOID);
	/* A tail that lags behind finds its way; one that leads to nonsense ends. */
	_Atomic uint32_t lagging = 0;
	assert_int_equal(segment_string_claim(&consumer, &lagging, 1), second + SEGMENT_STRING_SIZE(3) / 8);
	memset(consumer.strings + atomic_load(&lagging), 0xff, 8);
	assert_int_equal(segment_string_claim(&consumer, &lagging, 1), 0);
	segment_strings_publish(&consumer, 1);
	done();
}

static void test_a_full_arena_costs_names_only(void **state)
{
	(void)state;
	begin(1 << 20, LIMIT_CHUNK_BYTES, 0);
	sink_begin(sink_now());
	char name[4096];
	memset(name, 'n', sizeof name);
	for (int i = 0; i < 600; i++) {
		struct sink_thread *t = sink_enter(EVENT_RANGE);
		name[0] = (char)('a' + i % 26);
		name[1] = (char)('a' + i / 26);
		struct sink_frame *f = sink_open(t, EVENT_RANGE);
		f->source = SOURCE;
		f->key = 1;
		f->name = sink_string(t, name, sizeof name, EVENT_RANGE);
		f->start = 5;
		sink_leave(t);
		pop(6);
	}
	finish();
	assert_int_equal(range_count, 600);
	uint32_t nameless = 0;
	for (uint32_t i = 0; i < range_count; i++)
		nameless += ranges[i].name == 0;
	assert_true(nameless > 0);
	assert_int_equal(lost(LOSS_NAMELESS, EVENT_RANGE), nameless);
	done();
}

static void test_limit_is_exact(void **state)
{
	(void)state;
	begin(1 << 20, LIMIT_CHUNK_BYTES, 100);
	sink_begin(sink_now());
	for (uint64_t i = 0; i < 250; i++) {
		push("r", i + 1);
		pop(i + 2);
	}
	finish();
	assert_int_equal(range_count, 100);
	assert_int_equal(lost(LOSS_LIMIT, EVENT_RANGE), 150);
	done();
}

/* A signal handler with a range of its own, in the middle of the recorder. */
static volatile sig_atomic_t handled;
static void on_signal(int number)
{
	(void)number;
	push("from a handler", 77);
	pop(78);
	handled++;
}

static void test_a_signal_handler_inside_is_turned_away(void **state)
{
	(void)state;
	struct sigaction action = {.sa_handler = on_signal}, before;
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	begin(1 << 20, LIMIT_CHUNK_BYTES, 0);
	sink_begin(sink_now());
	raise(SIGUSR1); /* outside: recorded */
	struct sink_thread *t = sink_enter(EVENT_RANGE);
	raise(SIGUSR1); /* inside: its push is turned away, and its pop finds nobody home */
	sink_leave(t);
	finish();
	sigaction(SIGUSR1, &before, NULL);
	assert_int_equal(handled, 2);
	assert_int_equal(range_count, 1);
	assert_int_equal(lost(LOSS_REENTERED, EVENT_RANGE), 1);
	done();
}

#define THREADS 8
#define PAIRS 4000
static _Atomic uint32_t started;

static void *produce(void *unused)
{
	(void)unused;
	started++;
	for (uint64_t i = 0; i < PAIRS; i++) {
		push("work", i + 1);
		pop(i + 5);
	}
	return NULL;
}

static void test_recorded_and_lost_is_produced(void **state)
{
	(void)state;
	begin(16 * 4096, 4096, 0);
	sink_begin(sink_now());
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, produce, NULL), 0);
	for (int i = 0; i < 200; i++) {
		consume_full();
		usleep(200);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	finish();
	uint64_t gone = lost(LOSS_NO_SPACE, EVENT_RANGE);
	assert_int_equal(range_count + gone, THREADS * PAIRS);
	done();
}

static void *leave_open(void *unused)
{
	(void)unused;
	push("left open", 5);
	push("closed", 6);
	pop(8);
	return NULL;
}

static void *sweep_thread(void *unused)
{
	(void)unused;
	sink_sweep(20);
	return NULL;
}

static void test_threads_that_are_no_more(void **state)
{
	(void)state;
	begin(64 << 20, LIMIT_CHUNK_BYTES, 0);
	sink_begin(1);
	uint64_t bytes = 0;
	/* At the end until the kernel has forgotten the last one, which pthread_join() does not wait for. */
	for (int i = 0; i < 200 || (sink_open_count() && i < 10000); i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, i < 200 ? leave_open : sweep_thread, NULL), 0);
		pthread_join(thread, NULL);
		assert_int_equal(pthread_create(&thread, NULL, sweep_thread, NULL), 0);
		pthread_join(thread, NULL);
		if (i == 0)
			bytes = sink_bytes();
	}
	/* Nothing waits for ranges that nobody can end. */
	assert_int_equal(sink_open_count(), 0);
	assert_true(sink_bytes() < bytes * 2);
	finish_at(30);
	sink_release();
	segment_deinit(&producer);
	consume_full();
	assert_int_equal(range_count, 400);
	assert_int_equal(lost(LOSS_CLIPPED, EVENT_RANGE), 200);
	assert_int_equal(find(5)->duration, 15);
	assert_int_equal(find(5)->head.flags & EVENT_FLAG_CLIPPED, EVENT_FLAG_CLIPPED);
	assert_int_equal(find(6)->duration, 2);
	done();
}

#define LANES 4
#define LIVES 1500
#define MARKS 20
/* Each dead thread holds a chunk until it is found. Of so many the segment has enough, however late the sweeper gets a processor. */
#define AHEAD 256

/* Lives that have ended, and how many of those had when the last sweep that is over began. */
static _Atomic uint32_t lives, swept;

static void *live(void *unused)
{
	for (int i = 0; i < MARKS; i++) {
		struct sink_thread *t = sink_enter(EVENT_MARK);
		if (!t)
			continue;
		struct event_mark mark = {
			.head = {sizeof mark, EVENT_MARK, 0, sink_step()},
			.time = 1,
			.thread = sink_tid(t),
			.source = SOURCE,
		};
		sink_write(t, &mark);
		sink_leave(t);
	}
	return unused;
}

static void *lane(void *unused)
{
	for (int i = 0; i < LIVES; i++) {
		pthread_t thread;
		while (atomic_load(&lives) - atomic_load(&swept) > AHEAD)
			nanosleep(&(struct timespec){0, 50000}, NULL);
		if (pthread_create(&thread, NULL, live, NULL) == 0)
			pthread_join(thread, NULL);
		atomic_fetch_add(&lives, 1);
	}
	return unused;
}

static void *sweep_until(void *stop)
{
	while (!atomic_load((_Atomic uint32_t *)stop)) {
		uint32_t ended = atomic_load(&lives);
		sink_sweep(2);
		consume_full();
		atomic_store(&swept, ended);
	}
	return NULL;
}

/* What one leaves is taken by the next, and never by two. */
static void test_threads_that_come_and_go_while_the_dead_are_looked_for(void **state)
{
	(void)state;
	begin(64 << 20, LIMIT_CHUNK_BYTES, 0);
	sink_begin(1);
	_Atomic uint32_t stop = 0;
	pthread_t sweeper, lanes[LANES];
	assert_int_equal(pthread_create(&sweeper, NULL, sweep_until, &stop), 0);
	for (int i = 0; i < LANES; i++)
		assert_int_equal(pthread_create(&lanes[i], NULL, lane, NULL), 0);
	for (int i = 0; i < LANES; i++)
		pthread_join(lanes[i], NULL);
	stop = 1;
	pthread_join(sweeper, NULL);
	finish();
	for (unsigned loss = 0; loss < LOSS_COUNT; loss++)
		assert_int_equal(lost(loss, EVENT_MARK), 0);
	assert_int_equal(mark_count, LANES * LIVES * MARKS);
	done();
}

static void test_a_fork_child_is_dead(void **state)
{
	(void)state;
	begin(1 << 20, LIMIT_CHUNK_BYTES, 0);
	sink_begin(sink_now());
	push("open in the parent", 10);
	pid_t child = fork();
	if (child == 0) {
		int bad = life_alive() || sink_recording() || push("child", 20) != NULL;
		pop(30);
		_exit(bad);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	pop(40);
	finish();
	assert_int_equal(range_count, 1);
	done();
}

static int setup(void **state)
{
	(void)state;
	/* No daemon: the agent's thread, if it starts, has nobody to obey. */
	setenv("PROFD_SOCKET", "/nonexistent/profd.sock", 1);
	enter_process(ENTRY_API);
	return life_alive() ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nesting_and_self_time),
		cmocka_unit_test(test_open_at_the_end_is_clipped),
		cmocka_unit_test(test_closed_by_another_thread),
		cmocka_unit_test(test_a_late_end_writes_nothing),
		cmocka_unit_test(test_too_deep_is_counted),
		cmocka_unit_test(test_names_are_written_once),
		cmocka_unit_test(test_an_interrupted_thread_costs_no_names),
		cmocka_unit_test(test_an_entry_that_is_never_finished),
		cmocka_unit_test(test_a_full_arena_costs_names_only),
		cmocka_unit_test(test_limit_is_exact),
		cmocka_unit_test(test_a_signal_handler_inside_is_turned_away),
		cmocka_unit_test(test_step_of_a_time),
		cmocka_unit_test(test_device_records_have_no_step_yet),
		cmocka_unit_test(test_recorded_and_lost_is_produced),
		cmocka_unit_test(test_threads_that_are_no_more),
		cmocka_unit_test(test_threads_that_come_and_go_while_the_dead_are_looked_for),
		cmocka_unit_test(test_a_fork_child_is_dead),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
