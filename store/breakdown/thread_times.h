/* thread_times.h - how much of a stretch of time a thread ran, waited for a processor, or slept, from the looks that the agent took
 * (thread_times of proto/events.def). Between two looks a thread is taken to run evenly; how far that may be off is told. */
#ifndef PROFD_STORE_BREAKDOWN_THREAD_TIMES_H
#define PROFD_STORE_BREAKDOWN_THREAD_TIMES_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct thread_look {
	int64_t time, ran, waited, voluntary, involuntary;
};

struct thread_times {
	struct thread_look *looks; /* in order of time; owned */
	size_t count, room;
};

/* What a thread did in a stretch of time. ns; the rest of the time it slept. */
struct thread_use {
	int64_t ran, waited; /* waited: it could have run and had no processor */
	int64_t error;	     /* by so much at most `ran` may be off */
	int64_t voluntary, involuntary;
};

/* The looks at a thread, none where the file has none. False: no memory, or the file cannot be read. thread_times_free() in either
 * case. */
bool thread_times_load(sqlite3 *db, int64_t thread, struct thread_times *ret);
void thread_times_free(struct thread_times *times);

/* Adds what it did from `start` to `end` (ns since the capture's base) to *use. False: it was not looked at around that stretch, and
 * nothing is added. Of stretches that are much shorter than the time between two looks `error` grows beyond use. */
bool thread_times_add(const struct thread_times *times, int64_t start, int64_t end, struct thread_use *use);

/* How long it slept at the most in a stretch: between the last look before and the first behind it. -1: not known. */
int64_t thread_times_slept(const struct thread_times *times, int64_t start, int64_t end);

/* The same for one stretch. False: it was not looked at before and behind that stretch, or so seldom that
 * `ran` may be off by more than a quarter of the stretch. */
bool thread_times_between(const struct thread_times *times, int64_t start, int64_t end, struct thread_use *ret);

#endif
