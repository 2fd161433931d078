/* control.h - the functions of the sink that drive a capture; collectors do not include them. The agent's thread only,
 * unless a function says otherwise. */
#ifndef PROFD_AGENT_SINK_CONTROL_H
#define PROFD_AGENT_SINK_CONTROL_H

#include "proto/segment.h"
#include "sink.h"

/* The stack pointer of the calling thread. */
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

/* Is the call of this thread that began with the stack pointer `before` over, by a return or by a jump? A signal
 * handler that interrupts the call has its frames below `before`. On an alternate stack the answer is no. */
int sink_is_left(uintptr_t before, uintptr_t now);
/* The calling thread's tid, mostly without a system call. / Has the thread of this tid ended? */
uint32_t sink_own_tid(void);
int sink_is_dead(uint32_t tid);

/* Once, when the process is entered: registers for membarrier. 0 or a negative errno. */
int sink_init(void);

/* Makes the sink write into this segment, and lets hooks in; their events are thrown away until sink_begin. 0 or a
 * negative errno. */
int sink_prepare(struct segment *segment, uint32_t generation, uint64_t max_events);

/* 1 once an event was dropped because of --max-events. Any thread. */
int sink_limited(void);

/* Maps the pages of chunks that have become ready since the last call, so that the job's threads do not fault on them.
 * 1: more can come; 2: some were mapped, and more can come; 0: no more. */
int sink_populate(void);

/* Recording starts with step 1. Called by the step thread at a boundary (or by the agent's thread where there are no
 * steps); async-signal-safe. */
void sink_begin(uint64_t now);
/* The next step begins, at `now`. Step thread. */
void sink_next_step(uint32_t step, uint64_t now);
/* Events that start from now on are thrown away; open ranges may still end. Step thread, or the agent's. */
void sink_end(uint64_t now);
/* The collectors' drain begins: losses count again. Agent's thread. */
void sink_drain(void);

/* Takes back the sink_threads of threads that have ended, and writes their open ranges, clipped at `now`. */
void sink_sweep(uint64_t now);

/* Ranges and operators that are still open and belong to the recording. */
uint32_t sink_open_count(void);

/* After the hooks are off: waits until no thread is inside, at most until `deadline` (CLOCK_MONOTONIC ns); writes open
 * ranges, clipped at `end`; closes all chunks. Returns how many threads were still inside at the deadline. Their chunks
 * are covered by private pages, so that nobody reads a late write. */
uint32_t sink_finish(uint64_t end, uint64_t deadline);

/* Lets go of the segment; the caller may unmap it when sink_finish returned 0. */
void sink_release(void);

/* Is the calling thread in the middle of an event? For a fork child: a signal handler may have forked there. */
int sink_inside(void);

/* Bytes of the job's memory that the sink holds now. */
uint64_t sink_bytes(void);

/* The agent's own writer, for records that no thread of the job writes. NULL where nothing is prepared. */
struct sink_thread *sink_own(void);

#endif
