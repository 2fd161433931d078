/* collector.c - samples Python's stacks. At a given rate, a little unevenly so that no loop has the same rhythm, the
 * agent's thread reads the frames of the step thread and of all threads that have entered the sink in this recording,
 * because these run operators or launch. It calls nothing of Python, takes no lock and stops no thread. A torn stack is
 * read again, or lost and counted. */
#include "../core/collector.h"
#include "../core/keeper.h"
#include "../core/room.h"
#include "../core/sentence.h"
#include "interpreter.h"
#include "known.h"

#include "agent/sink/sink.h"
#include "proto/limits.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000ull
/* How many frames of a stack are read: the innermost ones. */
#define FRAMES 512
/* How many threads are sampled at a time, and how many of Python's threads are searched for them. */
#define FOLLOWED 64
#define THREADS 512
/* How often the list of Python's threads is read anew. */
#define LIST_NS (SECOND / 10)
/* Reads of memory for one sample of one thread, at most: some ms. */
#define READS 16384
/* Tries to read one stack. */
#define TRIES 4

struct listed {
	uint32_t tid;
	uint64_t state;
	bool was_whole; /* its stack was seen to begin where programs and threads begin */
	uint64_t odd;	/* its outermost frame when it last did not begin there */
};

static struct {
	struct python python;
	bool on;
	uint64_t period, next, list_at, random;
	struct listed list[THREADS], old[THREADS];
	uint32_t list_count;
	struct python_thread threads[THREADS];
	struct python_frame frames[FRAMES], scratch[FRAMES];
} stacks;

static int stacks_probe(char *sentence, size_t bytes)
{
	struct python python;
	char minor[24];
	if (interpreter_find(&python, sentence, bytes) < 0)
		return 0;
	minor[sentence_decimal(minor, python.minor)] = 0;
	sentence_put(sentence, bytes, "stacks of Python 3.", minor, ", sampled", NULL);
	return 1;
}

static int stacks_arm(const struct collector_request *request, char *sentence, size_t bytes)
{
	uint32_t rate = request->stacks_rate ? request->stacks_rate : STACKS_RATE_USUAL;
	int error = interpreter_find(&stacks.python, sentence, bytes);
	if (error < 0)
		return error;
	stacks.python.tries = TRIES;
	stacks.period = SECOND / (rate > LIMIT_STACKS_RATE ? LIMIT_STACKS_RATE : rate);
	error = known_take();
	if (error < 0)
		sentence_put(sentence, bytes, "no memory for the table of stacks", ROOM_NEAR_LIMIT, NULL);
	return error;
}

static int stacks_start(const struct collector_request *request, char *sentence, size_t bytes)
{
	(void)sentence;
	(void)bytes;
	known_start(request->generation);
	stacks.list_count = 0;
	stacks.next = stacks.list_at = 0;
	stacks.random = sink_now() | request->generation | 1;
	stacks.on = true;
	return 0;
}

/* ---------------------------------------------------------------- which threads */

static void read_list(uint64_t now)
{
	struct python *python = &stacks.python;
	uint32_t old_count = stacks.list_count;
	memcpy(stacks.old, stacks.list, sizeof stacks.old);
	python->memory.reads_left = READS;
	int found = python_threads(python, stacks.threads, THREADS);
	stacks.list_count = 0;
	for (int i = 0; i < found; i++) {
		struct listed *to = &stacks.list[stacks.list_count];
		*to = (struct listed){interpreter_tid(python, &stacks.threads[i]), stacks.threads[i].state, false, 0};
		for (uint32_t k = 0; k < old_count; k++)
			if (stacks.old[k].tid == to->tid && stacks.old[k].state == to->state)
				*to = stacks.old[k];
		stacks.list_count += to->tid != 0;
	}
	stacks.list_at = now + LIST_NS;
}

static struct listed *listed(uint32_t tid)
{
	for (uint32_t i = 0; i < stacks.list_count; i++)
		if (stacks.list[i].tid == tid)
			return &stacks.list[i];
	return NULL;
}

/* ---------------------------------------------------------------- what a thread does */

/* Processor time of a thread. The clock's number is computed from the tid, as pthread_getcpuclockid() does. 0: the
 * thread has ended. */
static uint64_t ran(uint32_t tid)
{
	struct timespec t;
	if (clock_gettime((clockid_t)(~(unsigned)tid << 3 | 6), &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* The letter after the name in /proc/self/task/TID/stat; a name may have brackets in it. */
static char state_letter(uint32_t tid)
{
	char path[64] = "/proc/self/task/", text[256];
	size_t n = strlen(path);
	n += sentence_decimal(path + n, tid);
	memcpy(path + n, "/stat", 6);
	keeper_read_file(path, text, sizeof text);
	const char *at = strrchr(text, ')');
	return at && at[1] ? at[2] : 0;
}

/* A thread that runs on another processor while its frames are read has used a little more processor time afterwards. */
static uint16_t state_of(uint32_t tid, uint64_t before)
{
	uint64_t after = ran(tid);
	if (!before || !after)
		return SAMPLE_UNKNOWN;
	if (after > before)
		return SAMPLE_RUNNING;
	char letter = state_letter(tid);
	return letter == 'R' ? SAMPLE_READY : letter == 'S' || letter == 'D' ? SAMPLE_WAITING : SAMPLE_UNKNOWN;
}

/* ---------------------------------------------------------------- a sample */

/* Does a stack that starts in the middle really start there? Yes when C calls Python; no for a moment while a generator is left.
 * Trust it when the last sample saw the same. */
static bool is_odd(struct listed *thread, uint64_t outermost)
{
	bool again = thread->odd == outermost;
	thread->odd = outermost;
	return !thread->was_whole || again;
}

/* The number of the thread's stack; 0 where it has no frame. False: the sample is lost, and counted. */
static bool read_stack(struct sink_thread *own, struct listed *thread, uint32_t *ret)
{
	struct python *python = &stacks.python;
	size_t count;
	bool more;
	unsigned torn;
	python->memory.reads_left = READS;
	for (int i = 0; i < TRIES; i++) {
		enum python_walk_result walked =
			python_walk(python, thread->state, stacks.frames, stacks.scratch, FRAMES, &count, &more, &torn);
		if (walked == WALK_TORN)
			continue;
		if (walked == WALK_ODD && i < TRIES - 1)
			continue;
		if (walked == WALK_ODD && !is_odd(thread, stacks.frames[count - 1].address))
			break;
		thread->was_whole |= walked == WALK_WHOLE && count;
		enum known_result known = known_stack(python, own, stacks.frames, count, ret);
		if (known == KNOWN_OK)
			return true;
		if (known != KNOWN_GONE) {
			sink_lost(known == KNOWN_FULL ? LOSS_STACKS : LOSS_NO_SPACE, EVENT_SAMPLE);
			return false;
		}
	}
	sink_lost(LOSS_TORN, EVENT_SAMPLE);
	return false;
}

static void sample(struct sink_thread *own, struct listed *thread)
{
	int doubtful;
	uint64_t before = ran(thread->tid);
	struct event_sample record = {
		.head = {sizeof record, EVENT_SAMPLE, 0, 0},
		.time = sink_now(),
		.thread = thread->tid,
	};
	record.head.step = sink_step_at(record.time, 0, &doubtful);
	if (!record.head.step || !read_stack(own, thread, &record.stack))
		return;
	record.state = state_of(thread->tid, before);
	sink_write(own, &record);
}

static void sample_all(uint64_t now, uint32_t step_thread)
{
	uint32_t tids[FOLLOWED];
	uint32_t first = step_thread ? step_thread : (uint32_t)getpid();
	size_t count = sink_writers(tids, FOLLOWED);
	if (now >= stacks.list_at)
		read_list(now);
	if (interpreter_is_ending(&stacks.python)) {
		stacks.on = false;
		return;
	}
	struct sink_thread *own = sink_enter_pop();
	if (!own)
		return;
	struct listed *thread = listed(first);
	if (thread)
		sample(own, thread);
	for (size_t i = 0; i < count; i++) {
		thread = tids[i] == first ? NULL : listed(tids[i]);
		if (thread)
			sample(own, thread);
	}
	sink_leave(own);
}

/* From three to five quarters of the period. */
static uint64_t uneven(void)
{
	stacks.random ^= stacks.random << 13;
	stacks.random ^= stacks.random >> 7;
	stacks.random ^= stacks.random << 17;
	return stacks.period * 3 / 4 + stacks.random % (stacks.period / 2 + 1);
}

static uint64_t stacks_poll(uint64_t now, uint32_t step_thread)
{
	if (!stacks.on)
		return UINT64_MAX;
	if (now < stacks.next)
		return stacks.next;
	if (sink_record_start() && !sink_record_end())
		sample_all(now, step_thread);
	/* A missed sample is not made up for: two samples at once tell no more than one. */
	stacks.next = (stacks.next && stacks.next + stacks.period > now ? stacks.next : now) + uneven();
	return stacks.next;
}

static void stacks_stop(void)
{
	stacks.on = false;
}

static void stacks_disarm(void)
{
	known_give_back();
}

const struct collector_ops collector_stacks = {
	.bit = COLLECTOR_PYTHON,
	.probe = stacks_probe,
	.arm = stacks_arm,
	.start = stacks_start,
	.poll = stacks_poll,
	.stop = stacks_stop,
	.bytes = known_bytes,
	.disarm = stacks_disarm,
};
