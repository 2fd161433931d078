/* work.c - see work.h. Threads: all. Locks: pool->lock and outbox->lock, never both. */
#include "work.h"
#include "proto/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* SQLite's worst, with room. */
#define WORK_STACK_BYTES (8u << 20)

void work_outbox_init(struct work_outbox *outbox, void (*wake)(void *context), void *context)
{
	*outbox = (struct work_outbox){.wake = wake, .context = context};
	pthread_mutex_init(&outbox->lock, NULL);
}

void work_outbox_close(struct work_outbox *outbox)
{
	pthread_mutex_lock(&outbox->lock);
	outbox->closed = true;
	pthread_mutex_unlock(&outbox->lock);
}

void work_outbox_deinit(struct work_outbox *outbox)
{
	pthread_mutex_destroy(&outbox->lock);
}

void work_outbox_put(struct work_outbox *outbox, struct work *work)
{
	work->next = NULL;
	pthread_mutex_lock(&outbox->lock);
	if (outbox->last)
		outbox->last->next = work;
	else {
		outbox->first = work;
		outbox->since = clock_monotonic();
	}
	outbox->last = work;
	if (!outbox->closed)
		outbox->wake(outbox->context);
	pthread_mutex_unlock(&outbox->lock);
}

unsigned work_outbox_run(struct work_outbox *outbox)
{
	pthread_mutex_lock(&outbox->lock);
	struct work *work = outbox->first;
	outbox->first = outbox->last = NULL;
	uint64_t since = outbox->since;
	pthread_mutex_unlock(&outbox->lock);
	outbox->late = work ? clock_monotonic() - since : 0;
	unsigned n = 0;
	while (work) {
		struct work *next = work->next;
		work->done(work);
		work = next;
		n++;
	}
	return n;
}

/* Is the thread in an uninterruptible wait, as for a disk? */
static bool waits_for_disk(int thread)
{
	char path[64], text[128];
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	/* "ID (NAME) STATE ..."; the name may hold anything. */
	const char *end = strrchr(text, ')');
	return end && end[1] == ' ' && end[2] == 'D';
}

void work_beat_begin(struct work_beat *beat)
{
	atomic_store_explicit(&beat->thread, (int)syscall(SYS_gettid), memory_order_relaxed);
	atomic_store_explicit(&beat->since, clock_monotonic(), memory_order_release);
}

void work_beat_end(struct work_beat *beat)
{
	atomic_store_explicit(&beat->since, 0, memory_order_release);
}

bool work_beat_hangs(struct work_beat *beat, uint64_t now, uint64_t most_ns)
{
	uint64_t since = atomic_load_explicit(&beat->since, memory_order_acquire);
	if (!since)
		return false;
	if (since < beat->on_disk)
		since = beat->on_disk;
	if (now < since + most_ns)
		return false;
	if (!waits_for_disk(atomic_load_explicit(&beat->thread, memory_order_relaxed)))
		return true;
	beat->on_disk = now;
	return false;
}

bool work_pool_hangs(struct work_pool *pool, uint64_t now, uint64_t most_ns)
{
	for (unsigned i = 0; i < sizeof pool->threads / sizeof *pool->threads; i++)
		if (work_beat_hangs(&pool->threads[i].beat, now, most_ns))
			return true;
	return false;
}

bool work_pool_works(struct work_pool *pool)
{
	for (unsigned i = 0; i < sizeof pool->threads / sizeof *pool->threads; i++)
		if (atomic_load_explicit(&pool->threads[i].beat.since, memory_order_acquire))
			return true;
	return false;
}

/* --- a pairing heap: no memory of its own, and what waits can be moved to the top --- */

static struct work *meld(struct work *a, struct work *b)
{
	if (!a || !b)
		return a ? a : b;
	if (b->due < a->due) {
		struct work *swap = a;
		a = b;
		b = swap;
	}
	b->previous = a;
	b->sibling = a->child;
	if (b->sibling)
		b->sibling->previous = b;
	a->child = b;
	return a;
}

/* Melds pairs from the left, then all of them from the right. That order keeps the heap shallow. */
static struct work *meld_children(struct work *first)
{
	struct work *pairs = NULL, *root = NULL;
	while (first) {
		struct work *a = first, *b = a->sibling;
		first = b ? b->sibling : NULL;
		a->sibling = a->previous = NULL;
		if (b)
			b->sibling = b->previous = NULL;
		a = meld(a, b);
		a->sibling = pairs;
		pairs = a;
	}
	while (pairs) {
		struct work *next = pairs->sibling;
		pairs->sibling = NULL;
		root = meld(root, pairs);
		pairs = next;
	}
	return root;
}

/* Its owner's lane, else a free one, else one that is shared. */
static struct work_lane *lane_of(struct work_pool *pool, uint32_t owner)
{
	struct work_lane *unused = NULL;
	for (unsigned i = 0; i < WORK_LANES; i++) {
		struct work_lane *lane = &pool->lanes[i];
		bool used = lane->root || lane->running;
		if (used && lane->owner == owner)
			return lane;
		if (!used && !unused)
			unused = lane;
	}
	if (!unused)
		return &pool->lanes[owner % WORK_LANES];
	unused->owner = owner;
	return unused;
}

static void put_back(struct work_pool *pool, struct work *work)
{
	work->child = work->sibling = work->previous = NULL;
	work->waits = true;
	work->lane->root = meld(work->lane->root, work);
	pool->waiting++;
}

static void take(struct work_pool *pool, struct work *work)
{
	work->lane->root = meld_children(work->child);
	work->child = NULL;
	work->waits = false;
	pool->waiting--;
}

static void move_to_top(struct work *work)
{
	struct work_lane *lane = work->lane;
	work->due = 0;
	if (work == lane->root)
		return;
	if (work->previous->child == work)
		work->previous->child = work->sibling;
	else
		work->previous->sibling = work->sibling;
	if (work->sibling)
		work->sibling->previous = work->previous;
	work->sibling = work->previous = NULL;
	lane->root = meld(lane->root, work);
}

/* Among the owners that have work due, takes the one who has the least work running, and returns its earliest piece. If nothing is due,
 * returns the piece that is due next. The piece stays in its heap. */
static struct work *look_next(const struct work_pool *pool)
{
	uint64_t now = clock_monotonic();
	struct work *best = NULL;
	unsigned best_running = 0;
	for (unsigned i = 0; i < WORK_LANES; i++) {
		struct work *work = pool->lanes[i].root;
		if (!work)
			continue;
		unsigned running = work->due <= now ? pool->lanes[i].running : UINT_MAX;
		if (!best || running < best_running || (running == best_running && work->due < best->due)) {
			best = work;
			best_running = running;
		}
	}
	return best;
}

/* --- the pool --- */

/* An extra thread works only for owners who have nothing else running. */
static bool may_leave(const struct work_pool *pool)
{
	if (pool->running <= pool->usual)
		return false;
	for (unsigned i = 0; i < WORK_LANES; i++)
		if (pool->lanes[i].root && pool->lanes[i].running == 0)
			return false;
	return true;
}

static void *pool_thread(void *argument)
{
	struct work_thread *self = argument;
	struct work_pool *pool = self->pool;
	/* On Linux the priority is the thread's own. */
	if (pool->nice)
		setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), pool->nice);
	pthread_mutex_lock(&pool->lock);
	while (!pool->stop && !may_leave(pool)) {
		struct work *work = look_next(pool);
		if (!work) {
			pool->idle++;
			pthread_cond_wait(&pool->changed, &pool->lock);
			pool->idle--;
			continue;
		}
		if (work->due > clock_monotonic()) {
			struct timespec until = {(time_t)(work->due / 1000000000u), (long)(work->due % 1000000000u)};
			pool->idle++;
			pthread_cond_timedwait(&pool->changed, &pool->lock, &until);
			pool->idle--;
			continue;
		}
		take(pool, work);
		work->kicked = false;
		struct work_lane *lane = work->lane;
		lane->running++;
		pthread_mutex_unlock(&pool->lock);
		bool reports = work->done != NULL;
		work_beat_begin(&self->beat);
		int64_t again = work->run(work);
		work_beat_end(&self->beat);
		if (again == WORK_DONE) {
			if (reports)
				work_outbox_put(pool->outbox, work);
			pthread_mutex_lock(&pool->lock);
			lane->running--;
			continue;
		}
		uint64_t due = clock_monotonic() + (uint64_t)again;
		pthread_mutex_lock(&pool->lock);
		work->due = work->kicked ? 0 : due;
		put_back(pool, work);
		lane->running--;
	}
	pool->running--;
	self->state = WORK_THREAD_ENDED;
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* Locked, but for the first threads. 0 or a positive errno. */
static int begin_thread(struct work_pool *pool)
{
	struct work_thread *thread = NULL;
	for (unsigned i = 0; i < sizeof pool->threads / sizeof *pool->threads && !thread; i++)
		if (pool->threads[i].state != WORK_THREAD_RUNS)
			thread = &pool->threads[i];
	if (!thread)
		return EAGAIN;
	if (thread->state == WORK_THREAD_ENDED)
		pthread_join(thread->thread, NULL);
	thread->state = WORK_THREAD_NONE;
	thread->pool = pool;
	/* The stack's size does not depend on the user's limit. */
	sigset_t all, before;
	pthread_attr_t attributes;
	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, WORK_STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&thread->thread, &attributes, pool_thread, thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (error)
		return error;
	thread->state = WORK_THREAD_RUNS;
	pool->running++;
	return 0;
}

/* Locked. */
static void grow(struct work_pool *pool)
{
	if (pool->running < pool->usual + pool->extra)
		begin_thread(pool);
}

int work_pool_init(struct work_pool *pool, unsigned threads, int nice_by, struct work_outbox *outbox)
{
	*pool = (struct work_pool){.outbox = outbox, .nice = nice_by};
	pthread_mutex_init(&pool->lock, NULL);
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&pool->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	int error = 0;
	pthread_mutex_lock(&pool->lock);
	while (!error && pool->usual < threads && pool->usual < WORK_THREADS_MAX) {
		error = begin_thread(pool);
		pool->usual += !error;
	}
	pthread_mutex_unlock(&pool->lock);
	if (pool->usual == 0) {
		work_pool_deinit(pool);
		return error ? -error : -EAGAIN;
	}
	return 0;
}

void work_pool_may_grow(struct work_pool *pool)
{
	pool->extra = WORK_EXTRA_MAX;
}

void work_pool_deinit(struct work_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < sizeof pool->threads / sizeof *pool->threads; i++) {
		pthread_mutex_lock(&pool->lock);
		bool begun = pool->threads[i].state != WORK_THREAD_NONE;
		pthread_mutex_unlock(&pool->lock);
		if (begun)
			pthread_join(pool->threads[i].thread, NULL);
		pool->threads[i].state = WORK_THREAD_NONE;
	}
	pthread_cond_destroy(&pool->changed);
	pthread_mutex_destroy(&pool->lock);
}

void work_submit(struct work_pool *pool, struct work *work)
{
	work->due = clock_monotonic();
	work->kicked = false;
	pthread_mutex_lock(&pool->lock);
	work->lane = lane_of(pool, work->owner);
	bool first = !work->lane->root && work->lane->running == 0;
	put_back(pool, work);
	if (first && pool->waiting > pool->idle)
		grow(pool);
	pthread_cond_signal(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
}

void work_kick(struct work_pool *pool, struct work *work)
{
	pthread_mutex_lock(&pool->lock);
	work->kicked = true;
	if (work->waits) {
		move_to_top(work);
		if (work->lane->running == 0 && pool->idle == 0)
			grow(pool);
	}
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
}
