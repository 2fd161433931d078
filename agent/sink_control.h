/* sink_control.h - the side of the sink that control.c drives; collectors do not include it. The agent's thread only,
 * unless a function says otherwise. */
#ifndef PROFD_AGENT_SINK_CONTROL_H
#define PROFD_AGENT_SINK_CONTROL_H

#include "../proto/segment.h"
#include "sink.h"

/* Once, at entry: the key that tells of exiting threads, the registration for membarrier. 0 or a negative errno. */
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
/* As sink_write, but a record that finds no room is not counted: the caller keeps it and tries again. */
int sink_write_spared(struct sink_thread *thread, const void *record);
/* What starts from now on is thrown away; open ranges still close. Step thread, or the agent's. */
void sink_end(uint64_t now);
/* The collectors' drain begins: losses count again. Agent's thread. */
void sink_drain(void);

/* Ranges and operators that are still open and belong to the recording. */
uint32_t sink_open_count(void);

/* After the hooks are off: waits (bounded by `deadline`, CLOCK_MONOTONIC ns) until no thread is inside, writes what is
 * still open as clipped at `end`, closes all chunks. Returns the number of threads that were still inside at the
 * deadline; their chunks are covered by private pages, so that a late write goes nowhere. */
uint32_t sink_finish(uint64_t end, uint64_t deadline);

/* Lets go of the segment; the caller may unmap it when sink_finish returned 0. */
void sink_release(void);

/* Bytes of the job's memory that the sink holds now. */
uint64_t sink_bytes(void);

/* The agent's own writer, for records that no thread of the job writes. NULL where nothing is prepared. */
struct sink_thread *sink_own(void);

#endif
