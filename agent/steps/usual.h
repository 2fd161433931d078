/* usual.h - the short way for the usual Optimizer.step: the outermost step of the step thread's one optimizer, after a
 * forward pass, while nothing is recorded. It is inlined into torch's callback, because every step of every job pays
 * for it.
 *
 * Where one of the functions returns 0 it has done nothing, and the caller takes the long way (steps.h). */
#ifndef PROFD_AGENT_STEPS_USUAL_H
#define PROFD_AGENT_STEPS_USUAL_H

#include "agent/core/own.h"
#include "nest.h"
#include "turns.h"

#include "agent/core/life.h"
#include "agent/sink/sink.h"

/* Only for the step thread; begun anew where another thread becomes the step thread. */
OWN struct turns steps_turns;
/* The entry of the step thread while it steps by one optimizer, and the process has been entered (life.h). Else, and
 * whenever the thread, the source or the optimizer changes, an entry that belongs to no thread. */
OWN struct nest_entry *_Atomic steps_usual;

/* Counts the end of such a step. */
void steps_usual_count(uint64_t now);

static inline int steps_is_usual(const struct nest_entry *e)
{
	return e == atomic_load_explicit(&steps_usual, memory_order_relaxed);
}

static inline int steps_usual_begin(struct nest_entry *e)
{
	if (!steps_is_usual(e) || e->depth)
		return 0;
	e->depth = 1;
	return 1;
}

/* Returns autograd's number in this thread, which usual steps have; called only where it is needed. */
typedef int64_t steps_sequence(void);

static inline int steps_usual_ends(const struct nest_entry *e)
{
	return steps_is_usual(e) && e->depth == 1 && life_idles();
}

static inline int steps_usual_end(struct nest_entry *e, steps_sequence *sequence)
{
	if (!steps_usual_ends(e) || !turns_is_usual(&steps_turns, (uint64_t)sequence()))
		return 0;
	uint64_t now = sink_now();
	turns_count_usual(&steps_turns, now);
	e->depth = 0;
	steps_usual_count(now);
	return 1;
}

/* The same for a step whose optimizer is known. */
static inline int steps_usual_end_of(struct nest_entry *e, uint64_t who, uint64_t sequence, uint64_t now)
{
	if (!steps_usual_ends(e) || !turns_usual(&steps_turns, who, sequence, now))
		return 0;
	e->depth = 0;
	steps_usual_count(now);
	return 1;
}

static inline int steps_usual_zero(const struct nest_entry *e, steps_sequence *sequence)
{
	if (!steps_is_usual(e) || e->depth || !turns_is_usual_zero(&steps_turns))
		return 0;
	turns_count_zero(&steps_turns, (uint64_t)sequence());
	return 1;
}

#endif
