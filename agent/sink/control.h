/* control.h - the side of the sink that control.c drives; collectors do not include it. The agent's thread only,
 * unless a function says otherwise. */
#ifndef PROFD_AGENT_SINK_CONTROL_H
#define PROFD_AGENT_SINK_CONTROL_H

#include "proto/segment.h"
#include "sink.h"

/* Where the stack of the calling thread stands. */
static inline __attribute__((always_inline)) uintptr_t stack_now(void)
{
	uintptr_t at;
#if defined(__x86_64__)
	__asm__ volatile("mov %%rsp, %0" : "=r"(at));
#elif defined(__aarch64__)
	__asm__ volatile("mov %0, sp" : "=r"(at));
#else
	at = (uintptr_t)__builtin_frame_address(0);
#endif
	return at;
}

/* Is the call of this thread that began with the stack at `before` over, whether it returned or not? A signal handler that
 * interrupts it has its frames below; on an alternate stack nothing is known. */
int sink_is_left(uintptr_t before, uintptr_t now);
/* The calling thread's tid, mostly without a system call; and is the thread of this tid no more? */
uint32_t sink_own_tid(void);
int sink_is_dead(uint32_t tid);

/* Once, at entry: the registration for membarrier. 0 or a negative errno. */
int sink_init(void);

/* Directs the sink at a segment and lets hooks in; what they bring is thrown away until sink_begin. 0 or a negative
 * errno. */
int sink_prepare(struct segment *segment, uint32_t generation, uint64_t max_events);

/* 1 once --max-events has turned an event away. Any thread. */
int sink_limited(void);

/* Maps the pages of the chunks that have become ready since, so that the job's threads do not fault on them. 1 while
 * more can come, 2 where that holds and some came now. */
int sink_populate(void);

/* Recording starts with step 1. Called by the step thread at a boundary (or by the agent's thread where there are no
 * steps); async-signal-safe. */
void sink_begin(uint64_t now);
/* The next step begins, at `now`. Step thread. */
void sink_next_step(uint32_t step, uint64_t now);
/* What starts from now on is thrown away; open ranges still close. Step thread, or the agent's. */
void sink_end(uint64_t now);
/* The collectors' drain begins: losses count again. Agent's thread. */
void sink_drain(void);

/* Takes back what belongs to threads that are no more, and writes as clipped at `now` what they left open. */
void sink_sweep(uint64_t now);

/* Ranges and operators that are still open and belong to the recording. */
uint32_t sink_open_count(void);

/* After the hooks are off: waits (bounded by `deadline`, CLOCK_MONOTONIC ns) until no thread is inside, writes what is
 * still open as clipped at `end`, closes all chunks. Returns the number of threads that were still inside at the
 * deadline; their chunks are covered by private pages, so that a late write goes nowhere. */
uint32_t sink_finish(uint64_t end, uint64_t deadline);

/* Lets go of the segment; the caller may unmap it when sink_finish returned 0. */
void sink_release(void);

/* Is the calling thread in the middle of an event? For a fork child, which may be there by a signal handler. */
int sink_inside(void);

/* Bytes of the job's memory that the sink holds now. */
uint64_t sink_bytes(void);

/* The agent's own writer, for records that no thread of the job writes. NULL where nothing is prepared. */
struct sink_thread *sink_own(void);

#endif
