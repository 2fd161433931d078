/* sink_internal.h - what the files of the sink share: sink.c (threads, chunks), sink_frame.c (open ranges),
 * sink_string.c (names). */
#ifndef PROFD_AGENT_SINK_INTERNAL_H
#define PROFD_AGENT_SINK_INTERNAL_H

#include "../proto/limits.h"
#include "../proto/segment.h"
#include "sink.h"
#include "sink_control.h"

#include <stdatomic.h>

/* Threads of the job that can write in one process's life at a time; each costs about 80 KiB of address space, of which
 * it touches what it needs. */
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
	uint64_t key; /* address of a static text; hash of another */
	uint32_t id;
	uint32_t bytes;
};

struct sink_thread {
	_Atomic uint32_t inside; /* the thread is in the recorder */
	_Atomic uint32_t owned;	 /* 0 free to take, 1 a thread's, 2 gone with frames that may still be pointed to */
	struct sink_thread *next;
	uint32_t tid;
	uint32_t generation; /* of the chunk and caches */
	unsigned char *chunk;
	struct segment_chunk *entry;
	uint32_t used, capacity;
	uint32_t described; /* its THREAD record is written */
	uint64_t next_id, last_id;

	struct sink_frame *top;
	struct sink_frame *free_frames;
	uint32_t frames_used; /* of frames[], the rest is untouched */
	uint32_t depth;

	struct sink_cached cache_static[SINK_CACHE];
	struct sink_cached cache_text[SINK_CACHE];
	struct sink_frame frames[SINK_DEPTH];
};

struct sink_state {
	_Atomic(struct sink_thread *) threads; /* only ever grows */
	_Atomic uint32_t thread_count;
	struct segment segment;
	_Atomic(struct segment_header *) header; /* NULL while nothing is prepared */
	uint32_t generation;
	uint32_t stuck; /* threads that were inside still when the last recording was finished */
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
extern struct sink_state sink_state;

/* sink.c */
/* Counts a loss whatever the phase. */
void count_loss(enum loss loss, uint8_t kind);
void thread_describe(struct sink_thread *thread);

/* sink_frame.c */
/* Empties the stack; returns 1 where a foreign library may still hold a pointer to one of the frames. */
int frames_abandon_all(struct sink_thread *thread);
uint32_t frames_open(struct sink_thread *thread, uint32_t generation);
/* Writes the open frames of `thread` through `own`, clipped at `end`. */
void frames_clip(struct sink_thread *thread, struct sink_thread *own, uint32_t generation, uint64_t end);
/* A frame whose end could not be recorded: its owner takes it back later. */
void frame_forget(struct sink_frame *frame);

/* sink_string.c */
int strings_prepare(const struct segment *segment);
/* Nobody writes any more: what is in the arena is published, but for what was never finished. */
void strings_finish(void);
/* stuck: threads that did not leave in time. */
void strings_release(uint32_t stuck);
uint64_t strings_bytes(void);

#endif
