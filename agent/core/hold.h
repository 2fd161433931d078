/* hold.h - the step thread stands still at a boundary while a collector is switched on that must not be switched on
 * during its calls.
 *
 * CUPTI needs this: if a kind is switched on while a thread is inside a launch, CUPTI loses the kernels of that thread,
 * in this session and in later ones (seen with CUDA 13.0 on an H200; switching off does no harm). At a boundary the
 * step thread is in no call of CUDA, and the threads that work for it mostly rest.
 *
 * It stands for a millisecond or so. After HOLD_MOST_NS it goes on even if the collector is not on yet. */
#ifndef PROFD_AGENT_CORE_HOLD_H
#define PROFD_AGENT_CORE_HOLD_H

#include <stdint.h>

#define HOLD_MOST_NS 100000000u

/* The step thread, at a boundary: it will stand there. Called before it wakes the agent's thread, so that hold_ask()
 * there returns 1 at once. */
void hold_begin(void);
/* Does it stand, or is it to stand? Any thread. */
int hold_wanted(void);
/* The step thread: stands until hold_release(), or until its time is over. A futex, and nothing else. */
void hold_stand(void);

/* The agent's thread: has the step thread stand at its next boundary, and waits for that so many ns at the most. 1: it stands. */
int hold_ask(uint64_t patience);
/* The step thread may go on. Any thread of the agent's. */
void hold_release(void);

#endif
