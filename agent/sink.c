/* sink.c - per-thread writers into the segment: entering and leaving, chunks, losses, the list of threads. The stack of
 * open ranges is in sink_frame.c, names in sink_string.c.
 *
 * Any thread of the job. Who may touch what: a sink_thread belongs to its thread, which is `inside` while it does so; the
 * agent's thread reads it after it has switched recording off and seen `inside` 0. The store to `inside` and the load of
 * `recording` are ordered against the agent's store and load by membarrier, so that the job's threads pay for no fence. */
#include "sink_internal.h"
#include "life.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Starts of as many steps as a capture can have. */
#define BOUNDARIES (LIMIT_STEPS + 2)

struct sink_state sink_state;

static __thread struct sink_thread *self __attribute__((tls_model("initial-exec")));
static pthread_key_t exit_key;
static int have_exit_key;

static uint64_t own_bytes; /* atomic; bytes of sink_threads */

/* ---------------------------------------------------------------- threads */

static void thread_seal(struct sink_thread *t)
{
	if (t->chunk) {
		atomic_store_explicit(&t->entry->state, CHUNK_FULL, memory_order_release);
		t->chunk = NULL;
		t->entry = NULL;
	}
	t->used = t->capacity = 0;
}

/* Runs in an exiting thread. A later hook of the same thread (another destructor) starts over with a new sink_thread. */
static void thread_exit(void *pointer)
{
	struct sink_thread *t = pointer;
	self = NULL;
	atomic_store_explicit(&t->inside, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (life_words && t->generation &&
	    t->generation == atomic_load_explicit(&life_words->recording, memory_order_acquire))
		thread_seal(t);
	/* Frames that a foreign library may still point to keep this sink_thread from being used again. */
	int held = frames_abandon_all(t);
	atomic_store_explicit(&t->inside, 0, memory_order_release);
	atomic_store_explicit(&t->owned, held ? 2 : 0, memory_order_release);
}

static struct sink_thread *thread_take(void)
{
	struct sink_thread *t;
	for (t = atomic_load_explicit(&sink_state.threads, memory_order_acquire); t; t = t->next) {
		uint32_t free_mark = 0;
		if (atomic_load_explicit(&t->owned, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong(&t->owned, &free_mark, 1))
			break;
	}
	if (!t) {
		if (atomic_fetch_add_explicit(&sink_state.thread_count, 1, memory_order_relaxed) >= SINK_THREADS) {
			atomic_fetch_sub_explicit(&sink_state.thread_count, 1, memory_order_relaxed);
			return NULL;
		}
		t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (t == MAP_FAILED) {
			atomic_fetch_sub_explicit(&sink_state.thread_count, 1, memory_order_relaxed);
			return NULL;
		}
		atomic_store_explicit(&t->owned, 1, memory_order_relaxed);
		__atomic_fetch_add(&own_bytes, sizeof *t, __ATOMIC_RELAXED);
		struct sink_thread *head = atomic_load_explicit(&sink_state.threads, memory_order_relaxed);
		do
			t->next = head;
		while (!atomic_compare_exchange_weak_explicit(&sink_state.threads, &head, t, memory_order_release,
							      memory_order_relaxed));
	}
	t->tid = (uint32_t)syscall(SYS_gettid);
	t->generation = 0;
	return t;
}

static struct sink_thread *thread_self(void)
{
	struct sink_thread *t = self;
	if (t)
		return t;
	int saved = errno;
	t = thread_take();
	if (t) {
		self = t;
		if (have_exit_key)
			pthread_setspecific(exit_key, t);
	}
	errno = saved;
	return t;
}

/* First time in this recording: everything of the last one is stale. */
static void thread_join(struct sink_thread *t, uint32_t generation)
{
	t->chunk = NULL;
	t->entry = NULL;
	t->used = t->capacity = 0;
	t->generation = generation;
	t->next_id = t->last_id = 0;
	memset(t->cache_static, 0, sizeof t->cache_static);
	memset(t->cache_text, 0, sizeof t->cache_text);
	frames_abandon_all(t);
	t->described = 0;
}

void thread_describe(struct sink_thread *t)
{
	int saved = errno;
	char name[64] = "";
	size_t n = sink_name_of_thread(t->tid, name, sizeof name);
	if (!n && prctl(PR_GET_NAME, name) == 0)
		n = strlen(name);
	struct event_thread record = {
		.head = {sizeof record, EVENT_THREAD, 0, 0},
		.pthread = (uint64_t)(uintptr_t)pthread_self(),
		.thread = t->tid,
		.name = sink_string(t, name, n, EVENT_THREAD),
	};
	sink_write(t, &record);
	errno = saved;
}

/* ---------------------------------------------------------------- entering and leaving */

uint32_t sink_recording(void)
{
	return life_words ? atomic_load_explicit(&life_words->recording, memory_order_relaxed) : 0;
}

/* *ret_reentered: 1 where this thread is inside already. */
static inline struct sink_thread *enter(int *ret_reentered)
{
	*ret_reentered = 0;
	if (!sink_recording())
		return NULL;
	struct sink_thread *t = thread_self();
	if (!t)
		return NULL;
	if (__builtin_expect(atomic_load_explicit(&t->inside, memory_order_relaxed), 0)) {
		*ret_reentered = 1;
		return NULL;
	}
	atomic_store_explicit(&t->inside, 1, memory_order_relaxed);
	/* The processor's half of this fence is the agent's membarrier (sink_finish). */
	atomic_signal_fence(memory_order_seq_cst);
	uint32_t generation = atomic_load_explicit(&life_words->recording, memory_order_acquire);
	if (__builtin_expect(!generation, 0)) {
		atomic_store_explicit(&t->inside, 0, memory_order_release);
		return NULL;
	}
	if (__builtin_expect(t->generation != generation, 0))
		thread_join(t, generation);
	return t;
}

struct sink_thread *sink_enter(uint8_t kind)
{
	int reentered;
	struct sink_thread *t = enter(&reentered);
	if (__builtin_expect(!t, 0) && sink_recording()) {
		/* More threads than the recorder follows, or a signal handler inside of it. */
		if (reentered)
			sink_lost(LOSS_REENTERED, kind);
		else if (!self)
			sink_lost(LOSS_TOO_DEEP, kind);
	}
	return t;
}

struct sink_thread *sink_enter_pop(void)
{
	int reentered;
	return enter(&reentered);
}

struct sink_thread *sink_enter_end(struct sink_frame *frame)
{
	struct sink_thread *t = thread_self();
	if (!t || atomic_load_explicit(&t->inside, memory_order_relaxed)) {
		if (frame->step && frame->generation == sink_recording())
			count_loss(LOSS_REENTERED, frame->kind);
		frame_forget(frame);
		return NULL;
	}
	atomic_store_explicit(&t->inside, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	uint32_t generation = life_words ? atomic_load_explicit(&life_words->recording, memory_order_acquire) : 0;
	if (generation && t->generation != generation && frame->generation == generation)
		thread_join(t, generation);
	return t;
}

void sink_leave(struct sink_thread *t)
{
	atomic_store_explicit(&t->inside, 0, memory_order_release);
}

uint32_t sink_step(void)
{
	return atomic_load_explicit(&sink_state.step, memory_order_relaxed);
}

uint32_t sink_tid(struct sink_thread *t)
{
	return t->tid;
}

uint64_t sink_id(struct sink_thread *t)
{
	/* Blocks of ids, so that threads do not meet at one counter and numbers stay small in the file. */
	if (t->next_id == t->last_id) {
		t->next_id = atomic_fetch_add_explicit(&sink_state.next_id, SINK_ID_BLOCK, memory_order_relaxed);
		t->last_id = t->next_id + SINK_ID_BLOCK;
	}
	return t->next_id++;
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
	/* The first chunks again, where the daemon keeps up: their pages are mapped and warm. Else on from the last one. */
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
		/* Racy: two threads may lose the larger one, which the next chunk brings back. */
		if (at >= atomic_load_explicit(&sink_state.high, memory_order_relaxed))
			atomic_store_explicit(&sink_state.high, at + 1, memory_order_relaxed);
		atomic_store_explicit(&entry->used, 0, memory_order_relaxed);
		atomic_store_explicit(&entry->thread, t->tid, memory_order_relaxed);
		atomic_store_explicit(&entry->sequence,
				      atomic_fetch_add_explicit(&h->next_sequence, 1, memory_order_relaxed) + 1,
				      memory_order_release);
		t->entry = entry;
		t->chunk = s->chunks + (size_t)at * s->chunk_bytes;
		t->capacity = s->chunk_bytes;
		t->used = 0;
		/* A thread that writes says who it is; one that only looks in does not. */
		if (!t->described) {
			t->described = 1;
			thread_describe(t);
		}
		return 1;
	}
	return 0;
}

static int over_limit(uint8_t kind)
{
	/* Steps, threads and devices are what makes the rest readable. */
	if (kind == EVENT_STEP || kind == EVENT_THREAD || kind == EVENT_SESSION || kind == EVENT_DEVICE ||
	    kind == EVENT_CONTEXT || kind == EVENT_STREAM || kind == EVENT_MODULE)
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
	if (__builtin_expect(head->step == 0, 0) && head->kind != EVENT_THREAD && head->kind < EVENT_SESSION)
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
	have_exit_key = pthread_key_create(&exit_key, thread_exit) == 0;
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) < 0)
		return -errno;
	return 0;
}

int sink_prepare(struct segment *segment, uint32_t generation, uint64_t max_events)
{
	if (!sink_state.boundaries) {
		void *map = mmap(NULL, BOUNDARIES * sizeof *sink_state.boundaries, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (map == MAP_FAILED)
			return -ENOMEM;
		sink_state.boundaries = map;
	}
	int r = strings_prepare(segment);
	if (r < 0)
		return r;
	sink_state.stuck = 0;
	atomic_store(&sink_state.boundary_count, 0);
	atomic_store(&sink_state.record_end, 0);
	sink_state.segment = *segment;
	sink_state.max_events = max_events;
	sink_state.populated = 0;
	atomic_store(&sink_state.high, 0);
	atomic_store(&sink_state.events, 0);
	atomic_store(&sink_state.hint, 0);
	atomic_store(&sink_state.next_id, 1);
	atomic_store(&sink_state.step, 0);
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

/* Step thread. */
static void boundary_add(uint64_t now)
{
	uint32_t count = atomic_load_explicit(&sink_state.boundary_count, memory_order_relaxed);
	if (count >= BOUNDARIES)
		return;
	atomic_store_explicit(&sink_state.boundaries[count], now, memory_order_relaxed);
	atomic_store_explicit(&sink_state.boundary_count, count + 1, memory_order_release);
}

uint64_t sink_record_start(void)
{
	return atomic_load_explicit(&sink_state.boundary_count, memory_order_acquire)
		       ? atomic_load_explicit(&sink_state.boundaries[0], memory_order_relaxed)
		       : 0;
}

uint64_t sink_record_end(void)
{
	return atomic_load_explicit(&sink_state.record_end, memory_order_acquire);
}

uint32_t sink_step_at(uint64_t time, uint64_t doubt, int *ret_doubtful)
{
	uint64_t end = sink_record_end();
	uint32_t count = atomic_load_explicit(&sink_state.boundary_count, memory_order_acquire);
	/* Boundaries that lie at or before `time`: the step's ordinal. Most records are of the last steps. */
	uint32_t low = 0, high = count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (atomic_load_explicit(&sink_state.boundaries[middle], memory_order_relaxed) <= time)
			low = middle + 1;
		else
			high = middle;
	}
	uint64_t nearest = UINT64_MAX;
	if (low > 0)
		nearest = time - atomic_load_explicit(&sink_state.boundaries[low - 1], memory_order_relaxed);
	if (low < count) {
		uint64_t next = atomic_load_explicit(&sink_state.boundaries[low], memory_order_relaxed) - time;
		nearest = next < nearest ? next : nearest;
	}
	if (end) {
		uint64_t last = end > time ? end - time : time - end;
		nearest = last < nearest ? last : nearest;
	}
	*ret_doubtful = nearest <= doubt;
	return end && time >= end ? 0 : low;
}

void sink_begin(uint64_t now)
{
	struct segment_header *h = sink_state.segment.header;
	struct timespec real;
	clock_gettime(CLOCK_REALTIME, &real);
	/* `now` was read a little earlier; both clocks are stated for that instant. */
	uint64_t since = sink_now() - now;
	atomic_store_explicit(&h->base_monotonic, now, memory_order_relaxed);
	atomic_store_explicit(&h->base_realtime, (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec - since,
			      memory_order_relaxed);
	atomic_store_explicit(&h->record_start, now, memory_order_relaxed);
	boundary_add(now);
	atomic_store_explicit(&sink_state.muted, 0, memory_order_relaxed);
	atomic_store_explicit(&sink_state.step, 1, memory_order_release);
}

void sink_next_step(uint32_t step, uint64_t now)
{
	boundary_add(now);
	atomic_store_explicit(&sink_state.step, step, memory_order_relaxed);
}

void sink_end(uint64_t now)
{
	atomic_store_explicit(&sink_state.record_end, now, memory_order_release);
	atomic_store_explicit(&sink_state.step, 0, memory_order_relaxed);
	atomic_store_explicit(&sink_state.muted, 1, memory_order_relaxed);
}

void sink_drain(void)
{
	atomic_store_explicit(&sink_state.muted, 0, memory_order_relaxed);
}

uint32_t sink_open_count(void)
{
	uint32_t n = 0;
	for (struct sink_thread *t = atomic_load_explicit(&sink_state.threads, memory_order_acquire); t; t = t->next)
		if (atomic_load_explicit(&t->owned, memory_order_relaxed) && t->generation == sink_state.generation)
			n += frames_open(t, sink_state.generation);
	return n;
}

/* Hides a chunk from a thread that is stuck inside the recorder: what it still writes lands in private pages. The daemon
 * keeps what was published. */
static void chunk_cover(struct sink_thread *t)
{
	unsigned char *at = t->chunk;
	if (at)
		mmap(at, sink_state.segment.chunk_bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

uint32_t sink_finish(uint64_t end, uint64_t deadline)
{
	uint32_t generation = sink_state.generation, stuck = 0;
	struct sink_thread *own = sink_own();
	/* From here on a thread that enters finds nothing to write into; who is inside already is waited for. */
	atomic_store_explicit(&life_words->recording, 0, memory_order_release);
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	for (struct sink_thread *t = atomic_load_explicit(&sink_state.threads, memory_order_acquire); t; t = t->next) {
		if (t == own)
			continue;
		while (atomic_load_explicit(&t->inside, memory_order_acquire) && sink_now() < deadline) {
			struct timespec nap = {0, 50000};
			nanosleep(&nap, NULL);
		}
		if (t->generation != generation)
			continue;
		if (atomic_load_explicit(&t->inside, memory_order_acquire)) {
			stuck++;
			chunk_cover(t);
			continue;
		}
		if (own && atomic_load_explicit(&t->owned, memory_order_acquire))
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
		memset(t->cache_static, 0, sizeof t->cache_static);
		memset(t->cache_text, 0, sizeof t->cache_text);
	}
	return t;
}

uint64_t sink_bytes(void)
{
	return __atomic_load_n(&own_bytes, __ATOMIC_RELAXED) + strings_bytes();
}
