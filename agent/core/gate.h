/* gate.h - keeps forks of the job, and its end, apart from the agent's calls into what others lock: the loader, malloc, torch,
 * CUPTI. A child has the locks of its parent as they were, and nobody to release them.
 *
 * A thread that makes such a call is inside the gate for as long as it takes. A fork waits until nobody else is, and nobody enters while
 * one is under way. All waits are bounded, and what did not wait to the end is counted. A raw clone() without CLONE_VM goes by
 * without asking; vfork and posix_spawn have no need to. */
#ifndef PROFD_AGENT_CORE_GATE_H
#define PROFD_AGENT_CORE_GATE_H

#include <link.h>
#include <stdatomic.h>
#include <stdint.h>

#define GATE_PLACES 64
/* Lies in the page that a fork wipes (life.h). */
struct gate {
	_Atomic uint32_t places[GATE_PLACES]; /* the thread, and what it does there; 0 = free */
	_Atomic uint32_t overruns;
	_Atomic uint32_t shut;
};

/* How long somebody at the gate waits for a fork that is under way: a thread of the job not so long that anybody would notice;
 * one of the agent's as long as a large process needs to be copied. */
#define GATE_JOB_NS 50000000ull
#define GATE_OWN_NS 10000000000ull

/* From now on forks of this process mind the gate; `in_child` runs in each child. Before that the gate is open. Any thread. */
void gate_watch(void (*in_child)(void));

/* Goes inside; the answer is for gate_leave(). Nests: who is inside already, or is forking, does not wait. Once the gate is shut
 * a thread of the agent's own does not come back from here. Keeps errno. */
unsigned gate_enter(uint64_t patience);
/* The same for what may take long by itself: a fork waits 50 ms for it, and for all others half a second. */
unsigned gate_enter_for_long(uint64_t patience);
void gate_leave(unsigned place);

/* dl_iterate_phdr, inside the gate. */
int gate_iterate(int (*look)(struct dl_phdr_info *, size_t, void *), void *context, uint64_t patience);

/* The process ends: waits until nobody else is inside, at most until `deadline`; no thread of the agent's own enters again. */
void gate_shut(uint64_t deadline);

/* How often somebody did not wait to the end. */
uint32_t gate_overruns(void);

#endif
