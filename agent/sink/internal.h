/* internal.h - what the files of the sink share: writer.c (entering, chunks, losses), thread.c (the list of threads),
 * frame.c (open ranges), string.c (names). */
#ifndef PROFD_AGENT_SINK_INTERNAL_H
#define PROFD_AGENT_SINK_INTERNAL_H

#include "agent/core/own.h"
#include "proto/limits.h"
#include "proto/segment.h"
#include "agent/core/life.h"
#include "sink.h"
#include "control.h"

#include <stdatomic.h>
#include <string.h>

/* How many threads of the job can have a sink_thread. Each costs about 90 KiB of address space, but only the memory
 * that it uses. */
#define SINK_THREADS 16384
/* Chunks at the start of the segment that are looked at first. */
#define SINK_WARM 32
/* Chunks beyond the highest one in use whose pages are mapped beforehand: 8 MiB, what the fastest job writes in some tens of
 * ms. More would cost the job's machine more than it saves the job. */
#define SINK_AHEAD 128
/* Ids that a thread takes at a time. */
#define SINK_ID_BLOCK 1024
/* Entries of a thread's caches of names: direct-mapped, a power of two. */
#define SINK_CACHE 256

struct sink_cached {
	uint64_t hash;
	uint32_t id;
	uint32_t bytes;
};

/* A name as it was when its address was last seen. Another name may lie there now, so the text is compared. */
struct sink_named {
	uint32_t generation;
	uint32_t id;
	char text[56];
};
_Static_assert(sizeof(struct sink_named) == 64, "a cache line each");

enum thread_state {
	THREAD_FREE = 0,
	THREAD_OWNED = 1,
	THREAD_DEAD = 2, /* another thread has its tid now: the agent's thread takes it back */
	THREAD_GONE = 3, /* dead, and a foreign library may still have pointers to its frames: not used again */
	THREAD_LEFT = 4, /* its thread has jumped out of the recorder, and has another sink_thread; this one is not used
		    * again */
	THREAD_TAKEN = 5, /* a thread is about to own it; its tid is still that of the dead thread before */
};

struct sink_thread {
	_Atomic uintptr_t inside; /* stack pointer of the thread when it entered the recorder; 0: it is outside */
	_Atomic uint32_t owned;	  /* enum thread_state */
	uint8_t entered;	  /* kind of the event that the last sink_enter was for */
	uintptr_t stuck;	  /* `inside` when the last recording stopped waiting for it; 0: it left in time */
	struct sink_thread *next;
	_Atomic uint32_t tid;
	uint32_t generation; /* of the chunk and caches */
	unsigned char *chunk;
	struct segment_chunk *entry;
	uint32_t used, capacity;
	uint32_t described; /* its THREAD record is written */
	void *memory;	    /* sink_memory() */
	uint64_t next_id, last_id;

	struct sink_frame *top;
	struct sink_frame *free_frames;
	uint32_t frames_used; /* of frames[], the rest is untouched */
	uint32_t depth;

	struct sink_named cache_static[SINK_CACHE];
	struct sink_cached cache_text[SINK_CACHE];
	uint32_t words[LIMIT_INPUTS_WORDS]; /* sink_words() */
	struct sink_frame frames[SINK_DEPTH];
};

struct sink_state {
	_Atomic(struct sink_thread *) threads; /* only ever grows */
	_Atomic uint32_t thread_count;
	int pid;
	struct segment segment;
	_Atomic(struct segment_header *) header; /* NULL while nothing is prepared */
	uint32_t generation;
	uint32_t stuck; /* threads that were still inside when the last recording was finished */
	uint64_t max_events;
	_Atomic uint64_t events;
	uint32_t populated;    /* chunks whose pages the agent's thread has mapped */
	_Atomic uint32_t high; /* chunks up to the highest one that was taken */
	_Atomic uint32_t hint; /* where to look for a free chunk */
	_Atomic uint64_t next_id;
	/* Starts of the steps, from ordinal 1 on, and the end of the last one; LIMIT_STEPS + 2 long, taken at the first
	 * capture and kept. Written by the step thread, `boundary_count` last. */
	_Atomic uint64_t *boundaries;
	_Atomic uint32_t boundary_count;
	_Atomic uint64_t record_end;
	_Atomic uint32_t step;	/* ordinal of the current step, 0 outside of the recording */
	_Atomic uint32_t muted; /* losses do not count: warm-up, or after the last boundary */
};
OWN struct sink_state sink_state;

/* writer.c */
/* Counts a loss whatever the phase. */
void count_loss(enum loss loss, uint8_t kind);
/* Writes who the thread is. 1, or 0 where there was no room. */
int thread_describe(struct sink_thread *thread);

/* thread.c */
/* The calling thread's sink_thread, or NULL. */
OWN __thread struct sink_thread *sink_self;
/* Gives the calling thread one. NULL: there are more threads than the recorder follows. */
struct sink_thread *thread_first(void);
/* The calling thread, with the stack pointer `stack`, is inside the recorder already. If it left the recorder by a
 * jump, it gets another sink_thread, which is returned. NULL: this may be a signal handler that interrupted the
 * recorder. */
struct sink_thread *thread_again(uintptr_t stack);
/* The thread's first call in this recording: forgets everything of the last one. */
void thread_join(struct sink_thread *thread, uint32_t generation);
/* Marks the thread's chunk as full. */
void thread_seal(struct sink_thread *thread);
/* Counts the events that the thread has begun in this recording and will never write. */
void thread_count_left(struct sink_thread *thread, uint32_t generation);

static inline struct sink_thread *thread_self(void)
{
	struct sink_thread *t = sink_self;
	return __builtin_expect(t != NULL, 1) ? t : thread_first();
}

/* As sink_recording, sink_tid, sink_step and sink_id, for the sink's own files. */
static inline uint32_t recording_now(memory_order order)
{
	return life_words ? atomic_load_explicit(&life_words->recording, order) : 0;
}

static inline uint32_t tid_of(const struct sink_thread *t)
{
	return atomic_load_explicit(&t->tid, memory_order_relaxed);
}

static inline uint32_t step_now(void)
{
	return atomic_load_explicit(&sink_state.step, memory_order_relaxed);
}

/* An event that would not become a record is no loss. In the drain `muted` is 0, because the collectors' losses count
 * then; so the step decides. */
static inline int counts_now(uint8_t kind)
{
	return step_now() || !event_needs_step(kind);
}

static inline uint64_t id_next(struct sink_thread *t)
{
	/* Threads take ids in blocks, so that they do not share one counter all the time, and the numbers in the file
	 * stay small. */
	if (__builtin_expect(t->next_id == t->last_id, 0)) {
		t->next_id = atomic_fetch_add_explicit(&sink_state.next_id, SINK_ID_BLOCK, memory_order_relaxed);
		t->last_id = t->next_id + SINK_ID_BLOCK;
	}
	return t->next_id++;
}

/* As sink_write, for a record with a step; inlined where its size is a constant. */
static inline int write_whole(struct sink_thread *t, const void *record, uint32_t size)
{
	if (__builtin_expect(size > t->capacity - t->used || sink_state.max_events, 0))
		return sink_write(t, record);
	memcpy(t->chunk + t->used, record, size);
	t->used += size;
	atomic_store_explicit(&t->entry->used, t->used, memory_order_release);
	return 1;
}

/* frame.c */
/* Empties the stack; returns 1 where a foreign library may still hold a pointer to one of the frames. */
int frames_abandon_all(struct sink_thread *thread);
uint32_t frames_open(struct sink_thread *thread, uint32_t generation);
/* The thread is dead: writes its open ranges through `own`, clipped at `end`. Returns how many other frames are left,
 * which another thread of torch may still end. */
uint32_t frames_bury(struct sink_thread *thread, struct sink_thread *own, uint32_t generation, uint64_t end);
/* Counts the open frames of `thread` as lost, by kind. */
void frames_count_left(struct sink_thread *thread, uint32_t generation);
/* Writes the open frames of `thread` through `own`, clipped at `end`. */
void frames_clip(struct sink_thread *thread, struct sink_thread *own, uint32_t generation, uint64_t end);
/* The frame's end could not be recorded: the owner takes the frame back later. */
void frame_forget(struct sink_frame *frame);

/* boundaries.c */
/* Forgets the boundaries of the last recording. 0 or a negative errno. */
int boundaries_prepare(void);

/* string.c */
int strings_prepare(const struct segment *segment);
/* No thread writes any more: publishes the texts in the arena, except those that were never finished. */
void strings_finish(void);
/* stuck: threads that did not leave in time. */
void strings_release(uint32_t stuck);
uint64_t strings_bytes(void);

#endif
