/* work.h - work that must not be done on the loop: small pools of threads, and an outbox through which finished work
 * comes back to the loop's thread. It is not libuv's pool of four threads, where a long derive would hold up short
 * work.
 *
 * A piece of work is owned by the pool from work_submit until its `done` is called on the loop's thread. */
#ifndef PROFD_DAEMON_CORE_WORK_H
#define PROFD_DAEMON_CORE_WORK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define WORK_DONE ((int64_t)-1)
#define WORK_THREADS_MAX 8
#define WORK_EXTRA_MAX 16

struct work {
	bool failed; /* the catalogue's: its transaction could not be committed */
	/* On a thread of the pool. Returns WORK_DONE, or the ns after which it wants to run again. */
	int64_t (*run)(struct work *work);
	/* On the loop's thread, after the last run. May free the work. NULL: nothing is to be done, run has freed it. */
	void (*done)(struct work *work);

	/* Whose work it is. When several owners wait, the one who has the least work running comes first. */
	uint32_t owner;

	/* The pool's, and the outbox's. */
	struct work_lane *lane;
	struct work *next;
	struct work *child, *sibling, *previous; /* of the pool's heap; previous: the sibling before, or the parent */
	uint64_t due;
	bool waits; /* in a heap */
	bool kicked;
};

/* Where finished work waits for the loop. `wake` is called from any thread. */
struct work_outbox {
	pthread_mutex_t lock;
	struct work *first, *last;
	uint64_t since; /* CLOCK_MONOTONIC ns of the first that waits */
	uint64_t late;	/* the loop's: how long it had waited when it was taken, ns */
	bool closed;	/* nobody is woken any more */
	void (*wake)(void *context);
	void *context;
};
void work_outbox_init(struct work_outbox *outbox, void (*wake)(void *context), void *context);
/* The loop ends: `wake` is not called from now on, whoever still puts something. */
void work_outbox_close(struct work_outbox *outbox);
void work_outbox_deinit(struct work_outbox *outbox);
void work_outbox_put(struct work_outbox *outbox, struct work *work);
/* Loop's thread: calls `done` of all that has arrived. Returns how many. */
unsigned work_outbox_run(struct work_outbox *outbox);

/* What a thread shows to its watcher. The watcher writes the last field, the thread all others. */
struct work_beat {
	_Atomic uint64_t since; /* CLOCK_MONOTONIC ns at which the piece of work began that it is at; 0 = at none */
	_Atomic int thread;	/* kernel's id */
	uint64_t on_disk;	/* when it was last seen waiting for one */
};
/* The calling thread begins a piece of work, and has ended it. */
void work_beat_begin(struct work_beat *beat);
void work_beat_end(struct work_beat *beat);
/* Has it been at one piece for longer than `most_ns`, not counting a wait for a disk? One watcher's thread. */
bool work_beat_hangs(struct work_beat *beat, uint64_t now, uint64_t most_ns);

/* The work of one owner: what waits, a pairing heap with the earliest on top (there may be as many as captures run), and
 * how many are running. If there are more owners than lanes, some share a lane. */
struct work_lane {
	uint32_t owner;
	struct work *root;
	unsigned running;
};
#define WORK_LANES 64

struct work_thread {
	struct work_pool *pool;
	pthread_t thread;
	struct work_beat beat;
	enum { WORK_THREAD_NONE, WORK_THREAD_RUNS, WORK_THREAD_ENDED } state;
};

struct work_pool {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct work_lane lanes[WORK_LANES];
	struct work_outbox *outbox;
	struct work_thread threads[WORK_THREADS_MAX + WORK_EXTRA_MAX];
	unsigned usual, extra;	/* threads: always, and at most beside them */
	unsigned running, idle; /* threads that there are, and those of them that wait for work, or until it is due */
	unsigned waiting;	/* pieces of work */
	int nice;
	bool stop;
};
/* With this priority a job gets three quarters of a processor that both want: where processors are scarce the job comes first, and records
 * that are lost by that are counted. */
#define WORK_NICE 5
/* Starts the threads, with all signals blocked; their priority is that of the loop less `nice_by`. 0 or a negative errno. */
int work_pool_init(struct work_pool *pool, unsigned threads, int nice_by, struct work_outbox *outbox);
/* For a pool whose pieces may take long, perhaps on purpose. If all threads are at work, an owner who has no work
 * running gets one more thread. */
void work_pool_may_grow(struct work_pool *pool);
/* Waits for what is running; waiting work is not run again. */
void work_pool_deinit(struct work_pool *pool);
/* Is one of its threads at work? */
bool work_pool_works(struct work_pool *pool);
/* Does one of its threads hang (work_beat_hangs)? */
bool work_pool_hangs(struct work_pool *pool, uint64_t now, uint64_t most_ns);
void work_submit(struct work_pool *pool, struct work *work);
/* Makes submitted work run now rather than when it is due; if it is running, it runs once more at once. The caller knows
 * that it is not done yet. */
void work_kick(struct work_pool *pool, struct work *work);

#endif
