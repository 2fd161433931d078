/* collector.c - compilations by torch.compile. torch itself keeps a list of the last ones with their times. After the
 * recording this collector reads the list (listed.h), and writes the compilations of the recording. It does nothing
 * during the recording. The agent's thread. */
#include "../core/clock.h"
#include "../core/collector.h"
#include "../core/sentence.h"
#include "../stacks/interpreter.h"
#include "listed.h"

#include "agent/sink/sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How many reads of memory are made at most: some 20 ms. Most recordings need some thousand, because torch's module is
 * searched among many. */
#define READS 100000
/* The distance of the two clocks changes by less than this, unless somebody sets CLOCK_REALTIME: they are read one
 * after the other. */
#define CLOCK_SET_NS 1000000

static struct {
	struct python python;
	struct listed now;
	uint64_t list, changes; /* when the recording began */
	int64_t ahead;		/* CLOCK_REALTIME less CLOCK_MONOTONIC, then */
} compile;

static int64_t clocks_apart(void)
{
	struct timespec real;
	uint64_t before = clock_now();
	clock_gettime(CLOCK_REALTIME, &real);
	uint64_t after = clock_now();
	return (int64_t)real.tv_sec * 1000000000 + real.tv_nsec - (int64_t)(before + (after - before) / 2);
}

static int refuse(enum listed_result result, char *sentence, size_t bytes)
{
	switch (result) {
	case LISTED_OK:
	case LISTED_ABSENT:
		return 0;
	case LISTED_OTHER:
		sentence_put(sentence, bytes,
			     "this torch does not list its compilations in a way that profd knows; 2.6 and newer do",
			     NULL);
		return -ENOTSUP;
	case LISTED_TORN:
		break;
	}
	sentence_put(sentence, bytes, "torch's list of compilations could not be read", NULL);
	return -EAGAIN;
}

static int find(struct python *python, char *sentence, size_t bytes)
{
	int error = interpreter_find_proved(python, sentence, bytes);
	python->memory.reads_left = READS;
	return error;
}

static int compile_probe(char *sentence, size_t bytes)
{
	if (find(&compile.python, sentence, bytes) < 0)
		return 0;
	enum listed_result result = listed_read(&compile.python, UINT64_MAX, &compile.now);
	if (refuse(result, sentence, bytes) < 0)
		return 0;
	sentence_put(sentence, bytes,
		     result == LISTED_ABSENT ? "compilations, once torch._dynamo is imported"
					     : "compilations, as torch lists them",
		     NULL);
	return 1;
}

static int compile_arm(const struct collector_request *request, char *sentence, size_t bytes)
{
	(void)request;
	int error = find(&compile.python, sentence, bytes);
	if (error < 0)
		return error;
	error = refuse(listed_read(&compile.python, UINT64_MAX, &compile.now), sentence, bytes);
	compile.list = compile.now.list;
	compile.changes = compile.now.changes;
	compile.ahead = clocks_apart();
	return error;
}

static int compile_start(const struct collector_request *request, char *sentence, size_t bytes)
{
	(void)request;
	(void)sentence;
	(void)bytes;
	return 0;
}

static void compile_stop(void)
{
}

static uint32_t string(struct sink_thread *own, const char *text)
{
	return *text ? sink_string(own, text, strlen(text), EVENT_COMPILE) : 0;
}

static void write_one(struct sink_thread *own, const struct listed_compilation *item, int64_t ahead)
{
	int doubtful;
	uint64_t start = item->start * 1000 - (uint64_t)ahead, end = item->end * 1000 - (uint64_t)ahead;
	uint64_t from = start > sink_record_start() ? start : sink_record_start();
	uint64_t to = end < sink_record_end() ? end : sink_record_end();
	struct event_compile record = {
		.head = {sizeof record, EVENT_COMPILE, 0, 0},
		.start = from,
		.duration = to > from ? to - from : 0,
		.whole = end - start,
		.line = (uint32_t)item->line,
		.operators = (uint32_t)item->operators,
		.part = item->part,
	};
	record.head.step = sink_step_at(from, 0, &doubtful);
	if (!record.head.step || !record.duration)
		return;
	record.id = string(own, item->id);
	record.function = string(own, item->function);
	record.file = string(own, item->file);
	record.reason = string(own, item->reason);
	record.failure = string(own, item->failure);
	sink_write(own, &record);
}

/* How often the list has changed since the recording began. */
static uint64_t changed(const struct listed *now)
{
	return now->changes - (now->list == compile.list ? compile.changes : 0);
}

/* How many of the compilations that were added since then the list no longer has. */
static uint64_t lost(const struct listed *now)
{
	uint64_t added = changed(now);
	if (!now->older)
		return 0;
	return added > now->count ? added - now->count : 1;
}

static void compile_drain(uint64_t deadline)
{
	(void)deadline;
	struct listed *now = &compile.now;
	uint64_t began = sink_record_start();
	int64_t ahead = clocks_apart();
	/* If Python has ended its list is gone. */
	if (!began || !sink_record_end() || interpreter_is_ending(&compile.python))
		return;
	compile.python.memory.reads_left = READS;
	enum listed_result result = listed_read(&compile.python, (began + (uint64_t)ahead) / 1000, now);
	if (result == LISTED_ABSENT)
		return;
	if (result != LISTED_OK) {
		uint64_t unread = changed(now);
		sink_lost_many(LOSS_UNLISTED, EVENT_COMPILE, unread ? unread : 1);
		return;
	}
	if (llabs(ahead - compile.ahead) > CLOCK_SET_NS) {
		sink_lost_many(LOSS_UNLISTED, EVENT_COMPILE, changed(now));
		return;
	}
	sink_lost_many(LOSS_UNLISTED, EVENT_COMPILE, lost(now));
	struct sink_thread *own = sink_enter_pop();
	if (!own)
		return;
	/* The oldest first. */
	for (uint32_t i = now->count; i-- > 0;)
		write_one(own, &now->items[i], ahead);
	sink_leave(own);
}

const struct collector_ops collector_compile = {
	.bit = COLLECTOR_COMPILE,
	.probe = compile_probe,
	.arm = compile_arm,
	.start = compile_start,
	.stop = compile_stop,
	.drain = compile_drain,
};
