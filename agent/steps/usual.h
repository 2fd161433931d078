/* usual.h - the short way for what an Optimizer.step nearly always is: the outermost of the step thread's one optimizer, after a
 * forward pass, while nothing is recorded. Inlined into torch's callback, which every step of every job pays for.
 *
 * Where one of the functions returns 0 nothing is done, and steps.h has the long way. */
#ifndef PROFD_AGENT_STEPS_USUAL_H
#define PROFD_AGENT_STEPS_USUAL_H

#include "agent/core/own.h"
#include "nest.h"
#include "turns.h"

#include "agent/core/life.h"
#include "agent/sink/sink.h"

/* The step thread's alone; begun anew where another thread has become it. */
OWN struct turns steps_turns;
/* The entry of the step thread while it steps by one optimizer. Else, and wherever who steps by what changes, one that is no
 * thread's. The process has been entered then (life.h). */
OWN struct nest_entry *_Atomic steps_usual;

/* The end of such a step is counted. */
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

/* Autograd's number in this thread is asked for only where it is needed; where steps are usual there is one. */
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

/* The same for a step of which it is known whose it was. */
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
