/* watched.h - steps that only a capture counts, because the process has no other steps or the capture asks for these:
 * batches, epochs, ranges, operators, named optimizers. They are the steps of one thread: the first one, or another if
 * that one has gone. For steps.c. */
#ifndef PROFD_AGENT_STEPS_WATCHED_H
#define PROFD_AGENT_STEPS_WATCHED_H

#include "counter.h"
#include "steps.h"

#include "proto/purpose.h"

/* If another thread has stepped this often since the step thread's last step, the step thread has gone or moved, and
 * the other thread takes its place. The same holds for the thread whose batches, ranges or operators a capture
 * counts. */
#define STEPS_TAKEOVER 16

/* From now on this source is counted (STEP_SOURCE_NONE: none), for a thread that is not known yet. `batches`: enum
 * batches. Agent's thread. */
void watched_begin(uint32_t from, uint32_t batches);
/* Is this source counted? Any thread. */
int watched_is(uint32_t from);
/* The calling thread's steps are those that count. */
void watched_take_thread(uintptr_t me);

/* A step of this source has ended in the calling thread. `tick`: the function to call, or NULL. */
void watched_boundary(uint32_t from, uint64_t now, uintptr_t me, steps_tick *tick);
/* A batch begins in the calling thread, and the one before ends. `purpose`: what that was for, as batches_next() says. */
void watched_batch(uint64_t now, enum purpose purpose, uintptr_t me, steps_tick *tick);
/* A batch begins in the calling thread, and epochs are counted. */
void watched_pass(uint64_t now, uint64_t sequence, const struct steps_pass *pass, uintptr_t me, steps_tick *tick);
/* Could the iterators not be read? True once for each watched_begin(). */
int watched_is_blind(void);
/* Does a capture ask what batches are for? */
int watched_by_purpose(void);

#endif
