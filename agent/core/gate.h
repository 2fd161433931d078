/* gate.h - keeps forks of the job, and its end, apart from the agent's calls that take locks of others: the loader's,
 * malloc's, torch's, CUPTI's. A child gets its parent's locks as they are, and no thread in it would release a lock
 * that the agent held.
 *
 * A thread that makes such a call is inside the gate for as long as the call takes. A fork waits until no other thread
 * is inside, and no thread enters while a fork is under way. All waits are bounded, and a wait that ran out of time is
 * counted. A raw clone() without CLONE_VM does not pass the gate; vfork and posix_spawn need not. */
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

/* How long a thread waits at the gate for a fork that is under way. A thread of the job waits so shortly that nobody
 * notices; a thread of the agent waits as long as the copy of a large process may take. */
#define GATE_JOB_NS 50000000ull
#define GATE_OWN_NS 10000000000ull

/* From now on forks of this process wait at the gate; `in_child` runs in each child. Any thread. */
void gate_watch(void (*in_child)(void));

/* Goes inside; the answer is for gate_leave(). Calls nest: a thread that is inside already, or is forking, does not
 * wait. Once the gate is shut, it does not return on a thread of the agent. Keeps errno. */
unsigned gate_enter(uint64_t patience);
/* The same for calls that may take long: a fork waits 50 ms for them, and half a second for all others. */
unsigned gate_enter_for_long(uint64_t patience);
void gate_leave(unsigned place);

/* dl_iterate_phdr, inside the gate. */
int gate_iterate(int (*look)(struct dl_phdr_info *, size_t, void *), void *context, uint64_t patience);

/* The process ends: waits until no other thread is inside, at most until `deadline`. No thread of the agent enters
 * again. */
void gate_shut(uint64_t deadline);

/* How often a wait ran out of time. */
uint32_t gate_overruns(void);

#endif
