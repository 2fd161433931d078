/* writer.c - per-thread writers into the segment: entering and leaving, chunks, losses. The list of threads is in thread.c, the
 * stack of open ranges in frame.c, names in string.c, where steps begin and end in boundaries.c.
 *
 * Any thread of the job runs this. A sink_thread belongs to its thread, which is `inside` while it works on it. The
 * agent's thread reads it after it has switched recording off and seen `inside` 0. The store to `inside` and the load
 * of `recording` are ordered against the agent's store and load by membarrier, so that the job's threads pay for no
 * fence. */
#include "internal.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* How long to wait for a thread that was stuck before. */
#define STUCK_AGAIN_NS 50000000

struct sink_state sink_state;

/* ---------------------------------------------------------------- entering and leaving */

uint32_t sink_recording(void)
{
	return recording_now(memory_order_relaxed);
}

static inline void go_in(struct sink_thread *t, uintptr_t stack, uint8_t kind)
{
	atomic_store_explicit(&t->inside, stack, memory_order_relaxed);
	/* This stops the compiler; the agent's membarrier (sink_finish) is the fence for the processor. */
	atomic_signal_fence(memory_order_seq_cst);
	t->entered = counts_now(kind) ? kind : 0;
}

/* For a thread that enters for the first time in its life or in this recording, or that is inside already. */
static __attribute__((noinline)) struct sink_thread *enter_slowly(uintptr_t stack, uint8_t kind)
{
	struct sink_thread *t = thread_self();
	/* Where there are more threads than the recorder follows. */
	enum loss loss = LOSS_TOO_DEEP;
	if (t && atomic_load_explicit(&t->inside, memory_order_relaxed)) {
		t = thread_again(stack);
		loss = LOSS_REENTERED;
	}
	if (!t) {
		if (kind && counts_now(kind))
			sink_lost(loss, kind);
		return NULL;
	}
	go_in(t, stack, kind);
	uint32_t generation = recording_now(memory_order_acquire);
	if (!generation) {
		sink_leave(t);
		return NULL;
	}
	if (t->generation != generation)
		thread_join(t, generation);
	return t;
}

static inline struct sink_thread *enter(uint8_t kind)
{
	const struct life *life = life_words;
	struct sink_thread *t = sink_self;
	uintptr_t stack = stack_now();
	if (!life || !atomic_load_explicit(&life->recording, memory_order_relaxed))
		return NULL;
	if (__builtin_expect(!t || atomic_load_explicit(&t->inside, memory_order_relaxed), 0))
		return enter_slowly(stack, kind);
	go_in(t, stack, kind);
	uint32_t generation = atomic_load_explicit(&life->recording, memory_order_acquire);
	if (__builtin_expect(generation && t->generation == generation, 1))
		return t;
	sink_leave(t);
	return enter_slowly(stack, kind);
}

struct sink_thread *sink_enter(uint8_t kind)
{
	return enter(kind);
}

struct sink_thread *sink_enter_pop(void)
{
	return enter(0);
}

static __attribute__((noinline)) struct sink_thread *enter_end_slowly(struct sink_frame *frame, uintptr_t stack)
{
	struct sink_thread *t = thread_self();
	if (t && atomic_load_explicit(&t->inside, memory_order_relaxed))
		t = thread_again(stack);
	if (!t) {
		if (frame->step && frame->generation == sink_recording())
			count_loss(LOSS_REENTERED, frame->kind);
		frame_forget(frame);
		return NULL;
	}
	go_in(t, stack, 0);
	uint32_t generation = recording_now(memory_order_acquire);
	if (generation && t->generation != generation && frame->generation == generation)
		thread_join(t, generation);
	return t;
}

struct sink_thread *sink_enter_end(struct sink_frame *frame)
{
	struct sink_thread *t = sink_self;
	uintptr_t stack = stack_now();
	if (__builtin_expect(!t || atomic_load_explicit(&t->inside, memory_order_relaxed), 0))
		return enter_end_slowly(frame, stack);
	go_in(t, stack, 0);
	if (__builtin_expect(t->generation == recording_now(memory_order_acquire), 1))
		return t;
	sink_leave(t);
	return enter_end_slowly(frame, stack);
}

void sink_leave(struct sink_thread *t)
{
	atomic_store_explicit(&t->inside, 0, memory_order_release);
}

uint32_t sink_step(void)
{
	return step_now();
}

uint32_t sink_tid(struct sink_thread *t)
{
	return tid_of(t);
}

void **sink_memory(struct sink_thread *t)
{
	return &t->memory;
}

uint64_t sink_id(struct sink_thread *t)
{
	return id_next(t);
}

/* ---------------------------------------------------------------- losses and chunks */

void sink_lost(enum loss loss, uint8_t kind)
{
	if (sink_recording() && !atomic_load_explicit(&sink_state.muted, memory_order_relaxed))
		count_loss(loss, kind);
}

void sink_lost_many(enum loss loss, uint8_t kind, uint64_t count)
{
	struct segment_header *header = atomic_load_explicit(&sink_state.header, memory_order_acquire);
	if (header && count)
		atomic_fetch_add_explicit(&header->lost[loss][kind % EVENT_KIND_COUNT], count, memory_order_relaxed);
}

void count_loss(enum loss loss, uint8_t kind)
{
	sink_lost_many(loss, kind, 1);
}

static int chunk_take(struct sink_thread *t)
{
	thread_seal(t);
	struct segment *s = &sink_state.segment;
	struct segment_header *h = s->header;
	if (atomic_load_explicit(&h->chunks_free, memory_order_relaxed) <= 0)
		return 0;
	uint32_t ready = atomic_load_explicit(&h->chunks_ready, memory_order_acquire);
	if (ready > s->chunk_count)
		ready = s->chunk_count;
	if (!ready)
		return 0;
	/* Looks at the first chunks first: if the daemon keeps up they are free again, and their pages are mapped and
	 * in the cache. Else the search goes on after the chunk that was taken last. */
	uint32_t at = 0;
	while (at < SINK_WARM && at < ready &&
	       atomic_load_explicit(&s->table[at].state, memory_order_relaxed) != CHUNK_FREE)
		at++;
	if (at == SINK_WARM || at >= ready)
		at = atomic_load_explicit(&sink_state.hint, memory_order_relaxed) % ready;
	for (uint32_t i = 0; i < ready; i++, at = at + 1 == ready ? 0 : at + 1) {
		struct segment_chunk *entry = &s->table[at];
		uint32_t state = CHUNK_FREE;
		if (atomic_load_explicit(&entry->state, memory_order_relaxed) != CHUNK_FREE ||
		    !atomic_compare_exchange_strong_explicit(&entry->state, &state, CHUNK_OWNED, memory_order_acquire,
							     memory_order_relaxed))
			continue;
		atomic_fetch_sub_explicit(&h->chunks_free, 1, memory_order_relaxed);
		atomic_store_explicit(&sink_state.hint, at + 1, memory_order_relaxed);
		/* This is a race: of two threads the one with the smaller number may write last. The next chunk
		 * corrects that. */
		if (at >= atomic_load_explicit(&sink_state.high, memory_order_relaxed))
			atomic_store_explicit(&sink_state.high, at + 1, memory_order_relaxed);
		atomic_store_explicit(&entry->used, 0, memory_order_relaxed);
		atomic_store_explicit(&entry->thread, tid_of(t), memory_order_relaxed);
		atomic_store_explicit(&entry->sequence,
				      atomic_fetch_add_explicit(&h->next_sequence, 1, memory_order_relaxed) + 1,
				      memory_order_release);
		t->entry = entry;
		t->chunk = s->chunks + (size_t)at * s->chunk_bytes;
		t->capacity = s->chunk_bytes;
		t->used = 0;
		/* A thread says who it is when it writes for the first time. */
		if (!t->described) {
			t->described = 1;
			t->described = (uint32_t)thread_describe(t);
		}
		return 1;
	}
	return 0;
}

int sink_await_room(uint64_t deadline)
{
	const struct segment *s = &sink_state.segment;
	if (!s->header)
		return 0;
	uint32_t wanted = (2u << 20) / s->chunk_bytes + 1;
	if (wanted > s->chunk_count / 2)
		wanted = s->chunk_count / 2;
	while (atomic_load_explicit(&s->header->chunks_free, memory_order_relaxed) <= (int32_t)wanted) {
		struct timespec nap = {0, 500000};
		if (sink_now() >= deadline)
			return 0;
		nanosleep(&nap, NULL);
	}
	return 1;
}

static int over_limit(uint8_t kind)
{
	if (event_is_fact(kind))
		return 0;
	uint64_t n = atomic_fetch_add_explicit(&sink_state.events, 1, memory_order_relaxed);
	return n >= sink_state.max_events;
}

static inline int put(struct sink_thread *t, const void *record, uint32_t size)
{
	if (__builtin_expect(size > t->capacity - t->used, 0) && !chunk_take(t))
		return 0;
	memcpy(t->chunk + t->used, record, size);
	t->used += size;
	atomic_store_explicit(&t->entry->used, t->used, memory_order_release);
	return 1;
}

int sink_write_spared(struct sink_thread *t, const void *record)
{
	return put(t, record, ((const struct event_head *)record)->size);
}

int sink_write(struct sink_thread *t, const void *record)
{
	const struct event_head *head = record;
	if (__builtin_expect(head->step == 0, 0) && event_needs_step(head->kind))
		return 0;
	if (__builtin_expect(sink_state.max_events != 0, 0) && over_limit(head->kind)) {
		count_loss(LOSS_LIMIT, head->kind);
		return 0;
	}
	if (__builtin_expect(!put(t, record, head->size), 0)) {
		count_loss(LOSS_NO_SPACE, head->kind);
		return 0;
	}
	return 1;
}

/* ---------------------------------------------------------------- what control.c drives */

int sink_init(void)
{
	sink_state.pid = getpid();
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) < 0)
		return -errno;
	return 0;
}

int sink_prepare(struct segment *segment, uint32_t generation, uint64_t max_events)
{
	int r = boundaries_prepare();
	if (r == 0)
		r = strings_prepare(segment);
	if (r < 0)
		return r;
	sink_state.stuck = 0;
	sink_state.segment = *segment;
	sink_state.max_events = max_events;
	sink_state.populated = 0;
	atomic_store(&sink_state.high, 0);
	atomic_store(&sink_state.events, 0);
	atomic_store(&sink_state.hint, 0);
	atomic_store(&sink_state.next_id, 1);
	atomic_store(&sink_state.step, 0);
	sink_sweep(0); /* of threads that ended since the last recording */
	sink_state.generation = generation;
	atomic_store_explicit(&sink_state.muted, 1, memory_order_relaxed);
	atomic_store_explicit(&sink_state.header, segment->header, memory_order_release);
	atomic_store_explicit(&life_words->recording, generation, memory_order_release);
	return 0;
}

int sink_limited(void)
{
	return sink_state.max_events &&
	       atomic_load_explicit(&sink_state.events, memory_order_relaxed) > sink_state.max_events;
}

int sink_populate(void)
{
	struct segment *s = &sink_state.segment;
	uint32_t ready = atomic_load_explicit(&s->header->chunks_ready, memory_order_acquire);
	uint32_t want = atomic_load_explicit(&sink_state.high, memory_order_relaxed) + SINK_AHEAD;
	if (ready > s->chunk_count)
		ready = s->chunk_count;
	if (ready > want)
		ready = want;
	if (ready <= sink_state.populated)
		return sink_state.populated < s->chunk_count;
	volatile unsigned char *from = s->chunks + (size_t)sink_state.populated * s->chunk_bytes;
	size_t bytes = (size_t)(ready - sink_state.populated) * s->chunk_bytes;
	if (madvise((void *)from, bytes, MADV_POPULATE_WRITE) < 0)
		for (size_t i = 0; i < bytes; i += 4096)
			(void)from[i]; /* before Linux 5.14; a page of shared memory is mapped writable by a read */
	sink_state.populated = ready;
	return ready < s->chunk_count ? 2 : 0;
}

void sink_drain(void)
{
	atomic_store_explicit(&sink_state.muted, 0, memory_order_relaxed);
}

/* Also true for an owner that has died: other threads may still end its ranges. */
static int has_owner(const struct sink_thread *t)
{
	uint32_t state = atomic_load_explicit(&t->owned, memory_order_acquire);
	return state == THREAD_OWNED || state == THREAD_DEAD;
}

uint32_t sink_open_count(void)
{
	uint32_t n = 0;
	for (struct sink_thread *t = atomic_load_explicit(&sink_state.threads, memory_order_acquire); t; t = t->next)
		if (has_owner(t) && t->generation == sink_state.generation)
			n += frames_open(t, sink_state.generation);
	return n;
}

/* Hides a chunk from a thread that is stuck inside the recorder: a late write goes into private pages. The daemon keeps
 * the published part of the chunk. */
static void chunk_cover(struct sink_thread *t)
{
	unsigned char *at = t->chunk;
	if (at)
		/* NOLINTNEXTLINE(bugprone-unused-return-value): if it fails the daemon still checks what it reads */
		mmap(at, sink_state.segment.chunk_bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

/* On a full machine a thread may get no processor for a long time, so the wait is long. A thread with the same stack
 * pointer as at the end of the last recording has most probably left the recorder by a jump: the wait for it is
 * short. */
static void await_leaving(struct sink_thread *t, uint64_t deadline)
{
	uint64_t again = sink_now() + STUCK_AGAIN_NS;
	uintptr_t inside;
	while ((inside = atomic_load_explicit(&t->inside, memory_order_acquire)) && has_owner(t) &&
	       sink_now() < (inside == t->stuck && again < deadline ? again : deadline)) {
		struct timespec nap = {0, 50000};
		nanosleep(&nap, NULL);
	}
	t->stuck = inside;
}

uint32_t sink_finish(uint64_t end, uint64_t deadline)
{
	uint32_t generation = sink_state.generation, stuck = 0;
	struct sink_thread *own = sink_own();
	/* From here on threads that enter find nothing to write into. We wait for those that are inside already. */
	atomic_store_explicit(&life_words->recording, 0, memory_order_release);
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	for (struct sink_thread *t = atomic_load_explicit(&sink_state.threads, memory_order_acquire); t; t = t->next) {
		if (t == own)
			continue;
		await_leaving(t, deadline);
		if (t->generation != generation)
			continue;
		if (atomic_load_explicit(&t->inside, memory_order_acquire)) {
			stuck++;
			thread_count_left(t, generation);
			chunk_cover(t);
			continue;
		}
		if (own && has_owner(t))
			frames_clip(t, own, generation, end);
		thread_seal(t);
	}
	if (own)
		thread_seal(own);
	strings_finish();
	sink_state.stuck = stuck;
	return stuck;
}

void sink_release(void)
{
	atomic_store_explicit(&sink_state.header, NULL, memory_order_release);
	strings_release(sink_state.stuck);
	memset(&sink_state.segment, 0, sizeof sink_state.segment);
	sink_state.generation = 0;
}

struct sink_thread *sink_own(void)
{
	if (!sink_state.generation)
		return NULL;
	struct sink_thread *t = thread_self();
	if (t && t->generation != sink_state.generation) {
		t->chunk = NULL;
		t->used = t->capacity = 0;
		t->generation = sink_state.generation;
		t->next_id = t->last_id = 0;
		t->described = 0;
		memset(t->cache_text, 0, sizeof t->cache_text);
	}
	return t;
}
