/* thread.c - the list of the threads that have written: which thread gets a sink_thread, and how it is taken back.
 *
 * Nothing of ours runs in an exiting thread: for that we would need a pthread key with a destructor, and from key 32 on
 * libc allocates from the job's heap, in the middle of any work of the job's thread. Instead the agent's thread asks
 * the kernel during the recording which threads have ended. If a thread enters while it is marked as inside, a signal
 * handler has interrupted the recorder, or a siglongjmp has left it. After a jump the thread gets another sink_thread,
 * because the work on the first one will never be finished. */
#include "internal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* After so many jumps out of the recorder in a process no thread gets another sink_thread. */
#define LEFT_MOST 64

__thread struct sink_thread *sink_self;
static _Atomic uint64_t own_bytes;
static _Atomic uint32_t left_count;

void thread_seal(struct sink_thread *t)
{
	if (t->chunk) {
		atomic_store_explicit(&t->entry->state, CHUNK_FULL, memory_order_release);
		t->chunk = NULL;
		t->entry = NULL;
	}
	t->used = t->capacity = 0;
}

void thread_join(struct sink_thread *t, uint32_t generation)
{
	t->chunk = NULL;
	t->entry = NULL;
	t->used = t->capacity = 0;
	/* sink_writers() reads it meanwhile. */
	__atomic_store_n(&t->generation, generation, __ATOMIC_RELAXED);
	t->next_id = t->last_id = 0;
	memset(t->cache_text, 0, sizeof t->cache_text);
	frames_abandon_all(t);
	t->described = 0;
}

int thread_describe(struct sink_thread *t)
{
	int saved = errno;
	char name[64] = "";
	uint32_t tid = tid_of(t);
	size_t n = sink_name_of_thread(tid, name, sizeof name);
	if (!n && prctl(PR_GET_NAME, name) == 0)
		n = strlen(name);
	struct event_thread record = {
		.head = {sizeof record, EVENT_THREAD, 0, 0},
		.pthread = (uint64_t)(uintptr_t)pthread_self(),
		.thread = tid,
		.name = sink_string(t, name, n, EVENT_THREAD),
	};
	int written = sink_write_spared(t, &record);
	errno = saved;
	return written;
}

/* ---------------------------------------------------------------- taken by the job's threads */

static struct sink_thread *thread_new(void)
{
	if (atomic_fetch_add_explicit(&sink_state.thread_count, 1, memory_order_relaxed) < SINK_THREADS) {
		struct sink_thread *t =
			mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (t != MAP_FAILED) {
			atomic_store_explicit(&t->owned, THREAD_OWNED, memory_order_relaxed);
			atomic_fetch_add_explicit(&own_bytes, sizeof *t, memory_order_relaxed);
			return t;
		}
	}
	atomic_fetch_sub_explicit(&sink_state.thread_count, 1, memory_order_relaxed);
	return NULL;
}

static struct sink_thread *thread_take(void)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	/* A vfork child has its parent's memory, and must not write its own tid there. */
	if (getpid() != sink_state.pid)
		return NULL;
	struct sink_thread *head = atomic_load_explicit(&sink_state.threads, memory_order_acquire), *t = NULL;
	for (struct sink_thread *at = head; at; at = at->next) {
		uint32_t state = atomic_load_explicit(&at->owned, memory_order_relaxed);
		if (state == THREAD_FREE && !t && atomic_compare_exchange_strong(&at->owned, &state, THREAD_TAKEN))
			t = at;
		else if (state == THREAD_OWNED && tid_of(at) == tid)
			atomic_compare_exchange_strong(&at->owned, &state, THREAD_DEAD);
	}
	if (t) {
		atomic_store_explicit(&t->tid, tid, memory_order_relaxed);
		t->generation = 0;
		atomic_store_explicit(&t->owned, THREAD_OWNED, memory_order_release);
		return t;
	}
	t = thread_new();
	if (!t)
		return NULL;
	atomic_store_explicit(&t->tid, tid, memory_order_relaxed);
	do
		t->next = head;
	while (!atomic_compare_exchange_weak_explicit(&sink_state.threads, &head, t, memory_order_release,
						      memory_order_relaxed));
	return t;
}

struct sink_thread *thread_first(void)
{
	int saved = errno;
	sink_self = thread_take();
	errno = saved;
	return sink_self;
}

int sink_is_left(uintptr_t before, uintptr_t now)
{
	stack_t alternate;
	int saved = errno;
	int known = now >= before && sigaltstack(NULL, &alternate) == 0 && !(alternate.ss_flags & SS_ONSTACK);
	errno = saved;
	return known;
}

int sink_inside(void)
{
	return sink_self && atomic_load_explicit(&sink_self->inside, memory_order_relaxed) != 0;
}

uint32_t sink_own_tid(void)
{
	struct sink_thread *t = sink_self;
	return t ? tid_of(t) : (uint32_t)syscall(SYS_gettid);
}

struct sink_thread *thread_again(uintptr_t stack)
{
	struct sink_thread *t = sink_self;
	if (atomic_load_explicit(&left_count, memory_order_relaxed) >= LEFT_MOST ||
	    !sink_is_left(atomic_load_explicit(&t->inside, memory_order_relaxed), stack))
		return NULL;
	atomic_fetch_add_explicit(&left_count, 1, memory_order_relaxed);
	/* Comes first: otherwise thread_take() would take the old one for that of a dead thread with the same tid. */
	atomic_store_explicit(&t->owned, THREAD_LEFT, memory_order_release);
	return thread_first();
}

/* ---------------------------------------------------------------- taken back by the agent's thread */

void thread_count_left(struct sink_thread *t, uint32_t generation)
{
	/* The event for which it had entered, unless that is a frame, which is counted below. */
	if (t->entered && t->entered != EVENT_RANGE && t->entered != EVENT_OPERATOR)
		count_loss(LOSS_LEFT, t->entered);
	frames_count_left(t, generation);
}

int sink_is_dead(uint32_t tid)
{
	return syscall(SYS_tgkill, sink_state.pid, (int)tid, 0) < 0 && errno == ESRCH;
}

static void bury(struct sink_thread *t, uint64_t end)
{
	struct sink_thread *own = sink_own();
	uint32_t generation = sink_state.generation;
	uintptr_t inside = atomic_load_explicit(&t->inside, memory_order_acquire);
	atomic_store_explicit(&t->owned, THREAD_DEAD, memory_order_relaxed);
	if (own && t->generation == generation) {
		thread_seal(t);
		if (inside)
			thread_count_left(t, generation);
		else if (frames_bury(t, own, generation, end))
			return;
	}
	int held = frames_abandon_all(t);
	atomic_store_explicit(&t->inside, 0, memory_order_relaxed);
	atomic_store_explicit(&t->owned, held ? THREAD_GONE : THREAD_FREE, memory_order_release);
}

void sink_sweep(uint64_t now)
{
	for (struct sink_thread *t = atomic_load_explicit(&sink_state.threads, memory_order_acquire); t; t = t->next) {
		uint32_t state = atomic_load_explicit(&t->owned, memory_order_acquire);
		if (t != sink_self && (state == THREAD_DEAD || (state == THREAD_OWNED && sink_is_dead(tid_of(t)))))
			bury(t, now);
	}
}

size_t sink_writers(uint32_t *tids, size_t room)
{
	size_t count = 0;
	struct sink_thread *t = atomic_load_explicit(&sink_state.threads, memory_order_acquire);
	for (; t && count < room; t = t->next)
		if (t != sink_self && atomic_load_explicit(&t->owned, memory_order_relaxed) == THREAD_OWNED &&
		    __atomic_load_n(&t->generation, __ATOMIC_RELAXED) == sink_state.generation)
			tids[count++] = tid_of(t);
	return count;
}

uint64_t sink_bytes(void)
{
	return atomic_load_explicit(&own_bytes, memory_order_relaxed) + strings_bytes();
}
