/* watched.h - steps that only a capture counts, since the process has none of its own or the capture asks for others: batches, ranges,
 * operators, named optimizers. One thread's: the first one's, or another's where that has gone. For steps.c. */
#ifndef PROFD_AGENT_STEPS_WATCHED_H
#define PROFD_AGENT_STEPS_WATCHED_H

#include "counter.h"
#include "steps.h"

#include "proto/purpose.h"

/* The step thread is replaced where another has stepped this often since its last step: it has gone, or moved. So is the thread whose
 * batches, ranges or operators a capture counts. */
#define STEPS_TAKEOVER 16

/* From now on this source (STEP_SOURCE_NONE: none), of nobody yet; `batches`: enum batches. Agent's thread. */
void watched_begin(uint32_t from, uint32_t batches);
/* Is it this source? Any thread. */
int watched_is(uint32_t from);
/* The calling thread's are those that count. */
void watched_take_thread(uintptr_t me);

/* A step of this source has ended in the calling thread. `tick`: who follows, or NULL. */
void watched_boundary(uint32_t from, uint64_t now, uintptr_t me, steps_tick *tick);
/* A batch begins there, `sequence`: autograd's number; and another ends, which is for this unless it trains. */
void watched_batch(uint64_t now, uint64_t sequence, enum purpose purpose, uintptr_t me, steps_tick *tick);
/* A batch begins there, and epochs are counted. */
void watched_pass(uint64_t now, uint64_t sequence, const struct steps_pass *pass, uintptr_t me, steps_tick *tick);
/* Could nothing be read of those? True once for each watch. */
int watched_is_blind(void);
/* Does a capture ask what batches are for? */
int watched_by_purpose(void);

#endif
