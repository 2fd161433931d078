/* guard.h - a thread of the agent's own that makes the calls into libcupti and libcuda, so that one that never returns holds up
 * neither the agent's control nor the job's exit. It exists from arm to disarm, or until its last call returns.
 *
 * One job at a time. The agent's thread posts and waits; the guard runs. A job that was not waited for to its end is
 * abandoned: its own result is lost, and when it returns at last the guard calls `cleanup` and ends. */
#ifndef PROFD_AGENT_CUPTI_GUARD_H
#define PROFD_AGENT_CUPTI_GUARD_H

#include <stdint.h>

typedef int (*guard_job)(void *argument);

/* Starts the thread where there is none. 0, a negative errno, or -EBUSY while an abandoned call has not returned. */
int guard_start(void);

/* Hands the guard a job; `argument` must live until it has returned. -EBUSY where it has one, -ESRCH where there is no guard. */
int guard_post(guard_job job, void *argument);

/* The same for the last one before disarm: nobody waits for it, and the thread ends after it. A guard_start() that comes meanwhile waits
 * until it has. */
void guard_post_last(guard_job job);

/* Waits until the job that was posted has ended, so many ns at most; time in which the waiting thread itself did not run does not
 * count. 0, also where there was none, with its result in *ret_result (may be NULL); -ETIMEDOUT. */
int guard_wait(uint64_t patience, int *ret_result);

/* How long a job has been running, 0 = none is: ns between the calls of this function, counted as above. It is to be called often. */
uint64_t guard_busy(void);

/* Gives up on the job that is running: from now on there is no guard, and `cleanup` (may be NULL) runs on its thread when the
 * job returns. 1, or 0 where the job has ended after all and nothing was given up. */
int guard_abandon(void (*cleanup)(void));

/* Ends the thread. No job is running. */
void guard_stop(void);

#endif
