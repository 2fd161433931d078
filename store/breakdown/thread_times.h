/* thread_times.h - how long a thread ran, waited for a processor, or slept in a stretch of time: from the looks that
 * the agent took (thread_times of proto/events.def). A thread is assumed to run evenly between two looks. `error`
 * says how far that may be off. */
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

/* What a thread did in a stretch of time, ns. It slept the rest of the time. */
struct thread_use {
	int64_t ran, waited; /* waited: it could have run and had no processor */
	int64_t error;	     /* `ran` may be off by so much at most */
	int64_t voluntary, involuntary;
};

/* Reads the looks at a thread; there are none where the file has none. False: no memory, or the file cannot be read.
 * Call thread_times_free() in either case. */
bool thread_times_load(sqlite3 *db, int64_t thread, struct thread_times *ret);
void thread_times_free(struct thread_times *times);

/* Adds to *use what the thread did from `start` to `end` (ns since the capture's base). False: there is no look on
 * one side of that stretch, and nothing is added. If the stretch is much shorter than the time between two looks,
 * `error` is too large to be of use. */
bool thread_times_add(const struct thread_times *times, int64_t start, int64_t end, struct thread_use *use);

/* The longest time that the thread may have slept between the last look before the stretch and the first one after
 * it. -1: not known. */
int64_t thread_times_slept(const struct thread_times *times, int64_t start, int64_t end);

/* The same for one stretch. False also where `ran` may be off by more than a quarter of the stretch. */
bool thread_times_between(const struct thread_times *times, int64_t start, int64_t end, struct thread_use *ret);

#endif
