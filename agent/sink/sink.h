/* sink.h - how collectors write events: per-thread writers into the segment, a stack of open ranges per thread, interned
 * names, exact loss counts. Called from any thread of the job, also inside hooks of foreign libraries; nothing here
 * blocks, allocates from the job's heap, changes errno or makes a system call on the common path.
 *
 * Usage in a hook:
 *
 *     struct sink_thread *t = sink_enter(EVENT_OPERATOR);    // NULL: not recording, or inside already (counted)
 *     if (!t) return;
 *     struct sink_frame *f = sink_open(t, EVENT_OPERATOR);   // NULL: dropped, counted
 *     if (f) { f->name = ...; f->start = sink_stamp(); }
 *     sink_leave(t);
 *
 * and at the end of the range
 *
 *     struct sink_thread *t = sink_enter_end(f);   // any thread; also if the recording has ended meanwhile
 *     ...
 *     sink_close(t, f, sink_stamp());
 *     sink_leave(t);
 */
#ifndef PROFD_AGENT_SINK_SINK_H
#define PROFD_AGENT_SINK_SINK_H

#include "agent/core/clock.h"
#include "agent/core/stamp.h"
#include "proto/events.h"

#include <stddef.h>
#include <stdint.h>

/* Open ranges and operators that one thread may have at a time; deeper ones are counted as too_deep. */
#define SINK_DEPTH 512

/* One open range or operator. Lies in private memory that is never unmapped, and that no other thread gets while a
 * foreign library may hold a pointer to it. The first words are free for the collector: torch's ObserverContext wants a
 * vtable pointer first. */
struct sink_frame {
	void *foreign[2]; /* the collector's; the sink does not change it, also when the frame is used again */
	struct sink_thread *owner;
	struct sink_frame *below; /* next open frame down the stack */
	uint32_t generation;
	uint8_t kind; /* EVENT_RANGE or EVENT_OPERATOR */
	uint8_t open;
	uint8_t source; /* ranges: enum range_source; operators: at::RecordScope */
	uint8_t payload_type;
	uint64_t start;
	uint64_t child; /* time of closed direct children */
	uint64_t id, parent;
	uint32_t step;
	uint16_t depth;
	uint16_t flags;
	uint32_t name;	   /* string ids */
	uint32_t domain;   /* ranges */
	uint32_t category; /* ranges */
	uint32_t color;	   /* ranges */
	uint64_t payload;  /* ranges */
	uint32_t inputs;   /* operators, and ranges of torch's */
	uint32_t forward_thread;
	int64_t sequence;
	uint64_t backward; /* operators: id of the innermost node of autograd around it, or its own if it is one; 0 =
			   * none, or not asked for */
	uint32_t stack;	   /* operators: number of its Python stack; 0 = none */
	uint8_t entered;   /* operators: calls of modules that begin with it */
	uint64_t key;	   /* the collector's: NVTX domain or range id */
	uint32_t level;	   /* the collector's (NVTX: open ranges of this domain below this one) */
	uint32_t beyond;   /* the collector's (NVTX: pushes above this one in its domain that were dropped) */
};

struct sink_thread; /* opaque: one per thread of the job that has written */

/* CLOCK_MONOTONIC ns. */
static inline uint64_t sink_now(void)
{
	return clock_now();
}
/* The same for what is recorded: most of the time without asking the kernel (agent/core/stamp.h). */
static inline uint64_t sink_stamp(void)
{
	return stamp_now();
}

/* Generation of the recording that is on, 0 while none is. It is on from warm-up until the open ranges have had time to
 * end. Only events that start in a step are written: an event of the warm-up, or after the last boundary, has step 0,
 * and sink_write and sink_close throw it away without counting it. So hooks need not know the phase. One relaxed
 * load. */
uint32_t sink_recording(void);

/* Marks the calling thread as inside, so that disarming waits for it. NULL when nothing is being recorded, or when this
 * thread is inside already (a signal handler interrupted the recorder; the event of `kind` is then counted as
 * reentered). */
struct sink_thread *sink_enter(uint8_t kind);

/* Marks the calling thread as inside in order to close `frame`, which sink_open gave, maybe in a recording that is
 * over. NULL where it cannot be closed here (re-entered); the frame is then counted and forgotten. */
struct sink_thread *sink_enter_end(struct sink_frame *frame);

/* Marks the calling thread as inside in order to end something for which it has no frame yet: a pop (sink_find then
 * finds the frame), the end of a start/end range, events that drain() writes on the agent's own thread. NULL when
 * nothing is being recorded, and where re-entered. Counts no loss: if a signal handler opens and closes a range inside
 * the recorder, the opening was counted. */
struct sink_thread *sink_enter_pop(void);

void sink_leave(struct sink_thread *thread);

/* Opens a range or an operator on the thread's stack. Sets id, parent, depth, step and generation, keeps foreign[], and
 * sets everything else to zero. The caller sets `start` last, so that its own work is not in the range. NULL: too deep
 * (counted). An opened frame must be closed. */
struct sink_frame *sink_open(struct sink_thread *thread, uint8_t kind);

/* Closes the frame at `end`. Writes its record if its recording is still on (sink_recording); else forgets it. `thread`
 * is the closing thread's. Never NULL arguments. */
void sink_close(struct sink_thread *thread, struct sink_frame *frame, uint64_t end);

/* Innermost open frame of this thread whose kind is EVENT_RANGE, with this source and key; NULL where none. For pops that
 * name no range. */
struct sink_frame *sink_find(struct sink_thread *thread, uint8_t source, uint64_t key);

/* Is is() true for one of the thread's open frames of this kind and source (ranges: enum range_source; 0 = any)? */
int sink_within(const struct sink_thread *thread, uint8_t kind, uint8_t source,
		int (*is)(const struct sink_frame *frame));

/* Id of the thread's innermost open frame; 0 = there is none, or it is not recorded. */
uint64_t sink_innermost(const struct sink_thread *thread);

/* The current step's ordinal within the capture, 0 outside. */
uint32_t sink_step(void);

/* For events that are reported later than they happen (a device's): the ordinal of the step in which `time` lies; 0
 * where it lies before the recording or after its end. *ret_doubtful: 1 where the nearest boundary is not more than
 * `doubt` ns away, so that the step may be the neighbour. Any thread; valid until the collectors are disarmed. */
uint32_t sink_step_at(uint64_t time, uint64_t doubt, int *ret_doubtful);
/* CLOCK_MONOTONIC ns of the first and of the last boundary of the recording; 0 = it has not come yet. */
uint64_t sink_record_start(void);
uint64_t sink_record_end(void);

/* A new id for a range that is not on a stack (start/end ranges); unique in the capture. */
uint64_t sink_id(struct sink_thread *thread);
uint32_t sink_tid(struct sink_thread *thread);
/* A pointer that the collector of stacks keeps for the thread, NULL at first. A later thread may find the pointer of a
 * thread that has ended; two threads never have it at the same time. */
void **sink_memory(struct sink_thread *thread);

/* Writes a finished record (head.size and head.kind set; head.step by the caller). 1, or 0 where it was dropped (and
 * counted). A record of step 0 is thrown away where its kind needs a step (event_needs_step). For other kinds the step
 * is found later; their collectors themselves leave out events from outside the recording. */
int sink_write(struct sink_thread *thread, const void *record);

/* As sink_write, but without room the record is not counted: the caller keeps it and tries again. */
int sink_write_spared(struct sink_thread *thread, const void *record);

/* Interns a text and returns its id, 0 where the arena is full (counted as nameless for `kind`). Texts longer than
 * LIMIT_STRING_BYTES are cut at a UTF-8 boundary and counted as truncated. `bytes` without NUL. */
uint32_t sink_string(struct sink_thread *thread, const char *text, size_t bytes, uint8_t kind);
/* The same for a text that ends with a NUL and mostly lies at the same address again (an operator's schema name): looks
 * it up by its address, and compares it. */
uint32_t sink_string_static(struct sink_thread *thread, const char *text, uint8_t kind);
/* The same for an inputs description (proto/inputs.h), n words. 0: counted as inputless for `kind`. */
uint32_t sink_inputs(struct sink_thread *thread, const uint32_t *words, size_t n, uint8_t kind);
/* Room for LIMIT_INPUTS_WORDS words of a description until the thread leaves, because the thread's stack may be
 * small. */
uint32_t *sink_words(struct sink_thread *thread);

/* Before many records are written at once after the recording: waits until the daemon has made room for some MiB, at
 * most until `deadline` (CLOCK_MONOTONIC ns). 1, or 0 where there is less room. Agent's thread. */
int sink_await_room(uint64_t deadline);

/* Counts a loss of an event of `kind`; nothing in warm-up and after the last boundary. */
void sink_lost(enum loss loss, uint8_t kind);
/* Counts `count` losses at once, in any phase. kind 0: the kind is not known. */
void sink_lost_many(enum loss loss, uint8_t kind, uint64_t count);

/* Kernel tids of the threads, without the calling one, that have entered the sink in this recording: at most `room`.
 * Returns their number. */
size_t sink_writers(uint32_t *tids, size_t room);

/* Names the thread `tid` in the capture (NVTX's nvtxNameOsThread); also remembered for later captures (bounded). */
void sink_name_thread(uint32_t tid, const char *name, size_t bytes);
/* The name that the thread `tid` got by sink_name_thread(). Returns its length, 0 where there is none. */
size_t sink_name_of_thread(uint32_t tid, char *to, size_t bytes);

#endif
