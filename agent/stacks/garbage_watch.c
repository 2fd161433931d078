/* garbage_watch.c - see garbage_watch.h. CPython has a flag, which is up while a collection runs. It counts the collection just before it
 * takes the flag down. So we know the counts of a collection once the flag is down. If the counts change while the flag is up, either the
 * flag is about to go down, or one collection has ended and the next one has begun between two of our looks. */
#include "garbage_watch.h"
#include "garbage.h"

#include "agent/sink/sink.h"

#include <stddef.h>

/* A look costs next to nothing, but waking the agent's thread for it costs 10 to 25 microseconds. So the thread looks whenever it is awake, and
 * is woken for a look no more often than for the times of the step's thread. */
#define EVERY_NS 10000000ull
/* While the flag is up, the next look comes after WHILE_NS, plus this part of the time that the collection has taken so far. So the error of its
 * end is a small part of the whole. */
#define WHILE_NS 1000000ull
#define WHILE_PART 64
/* A look that comes late shows that threads wait for a processor. Then the next look is put off by this many times the delay, and by
 * PAUSE_MOST_NS at most. */
#define LATE_TIMES 2
#define PAUSE_MOST_NS 100000000ull

static struct {
	uint64_t next;
	uint64_t down, seen; /* when the flag was last seen down, and first seen up; seen 0: the flag is down */
	uint64_t looked;     /* when the flag was last seen up */
	uint32_t thread;
	bool again; /* this collection began between two looks, and an earlier one ended between the same two */
	struct garbage before, begins; /* counts when the flag was last seen down, and first seen up */
} watch;

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t all_of(const struct garbage *since)
{
	uint64_t sum = 0;
	for (unsigned i = 0; since->known && i < PYTHON_GENERATIONS; i++)
		sum += since->collections[i];
	return sum;
}

/* Collections that were counted since the flag was first seen up. If there are none, the collection had been counted by that time already:
 * then those that were counted since the flag was last seen down. */
static struct garbage counted(const struct garbage *now)
{
	struct garbage since = garbage_since(&watch.begins, now);
	return all_of(&since) ? since : garbage_since(&watch.before, now);
}

/* Writes the record of a collection that ended between `looked` and `now`. */
static void write_stretch(const struct garbage *garbage, uint64_t now)
{
	struct garbage since = counted(garbage);
	uint64_t error = (watch.seen - watch.down) / 2, end_error = (now - watch.looked) / 2, end = now - end_error;
	struct event_garbage record = {
		.head = {sizeof record, EVENT_GARBAGE, 0, 0},
		.start = watch.down + error,
		.error = error,
		.end_error = end_error,
		.collected = since.collected,
		.thread = watch.thread,
		.generation = GARBAGE_GENERATION_UNKNOWN,
	};
	int doubtful;
	for (unsigned i = 0; since.known && i < PYTHON_GENERATIONS; i++)
		if (since.collections[i])
			record.generation = (uint8_t)i;
	record.collections = (uint16_t)least(all_of(&since), UINT16_MAX);
	/* If the flag was first seen up after the recording's end, the collection may still have begun before that end: the estimated times decide.
	 * If an earlier collection ended between the same two looks, and none has been counted since, the flag was up for the earlier one alone. */
	if (end <= record.start || (watch.again && !garbage->running && since.known && !record.collections))
		return;
	record.duration = end - record.start;
	record.head.step = sink_step_at(record.start, 0, &doubtful);
	struct sink_thread *own = record.head.step ? sink_enter_pop() : NULL;
	if (!own)
		return;
	sink_write(own, &record);
	sink_leave(own);
}

static void begin(const struct garbage *garbage, uint64_t now)
{
	/* A collection that began before the recording is counted from the recording's begin on. */
	uint64_t start = sink_record_start();
	if (watch.down < start)
		watch.down = start;
	watch.seen = now > watch.down ? now : watch.down;
	watch.begins = *garbage;
	watch.thread = garbage_thread();
}

static void take(const struct garbage *garbage, uint64_t now)
{
	if (!garbage->running) {
		if (watch.seen)
			write_stretch(garbage, now);
		watch.seen = 0;
		watch.again = false;
		watch.down = now;
		watch.before = *garbage;
		return;
	}
	struct garbage since = garbage_since(&watch.begins, garbage);
	if (watch.seen && all_of(&since)) {
		write_stretch(garbage, now);
		watch.again = true;
		watch.before = *garbage;
		watch.down = watch.looked;
		watch.seen = 0;
	}
	watch.looked = now;
	if (!watch.seen)
		begin(garbage, now);
}

void garbage_watch_begin(void)
{
	watch.next = watch.down = watch.seen = 0;
	watch.again = false;
	watch.before = watch.begins = (struct garbage){0};
}

uint64_t garbage_watch_work(uint64_t now)
{
	uint64_t late = watch.next && now > watch.next ? now - watch.next : 0;
	struct garbage garbage = garbage_look();
	take(&garbage, now);
	if (!garbage.known)
		watch.next = UINT64_MAX;
	else if (watch.seen)
		watch.next = now + WHILE_NS + least((now - watch.seen) / WHILE_PART, EVERY_NS);
	else
		watch.next = now + EVERY_NS + least(late * LATE_TIMES, PAUSE_MOST_NS);
	return watch.next;
}

void garbage_watch_end(uint64_t end)
{
	if (!watch.seen)
		return;
	struct garbage garbage = garbage_look();
	if (garbage.running || end < watch.looked)
		watch.looked = end;
	write_stretch(&garbage, end);
	watch.seen = 0;
}
