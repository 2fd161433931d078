/* guard.h - a thread of the agent that makes the calls into libcupti and libcuda. If a call never returns, neither the
 * agent's control nor the job's exit waits for it. The thread exists from arm to disarm, or until its last call
 * returns.
 *
 * The guard runs one job at a time; the agent's thread posts it and waits. If the agent's thread stops waiting, it
 * abandons the job: the result is lost, and when the job returns at last, the guard calls `cleanup` and ends. */
#ifndef PROFD_AGENT_CUPTI_GUARD_H
#define PROFD_AGENT_CUPTI_GUARD_H

#include <stdint.h>

typedef int (*guard_job)(void *argument);

/* Starts the thread where there is none. 0, a negative errno, or -EBUSY while an abandoned call has not returned. */
int guard_start(void);

/* Hands the guard a job; `argument` must live until the job has returned. -EBUSY where the guard has a job, -ESRCH
 * where there is no guard. */
int guard_post(guard_job job, void *argument);

/* The same for the last job before disarm: nobody waits for it, and the thread ends after it. A guard_start() that
 * comes meanwhile waits for that end. */
void guard_post_last(guard_job job);

/* Waits until the posted job has ended, so many ns at most; time in which the waiting thread itself got no processor
 * does not count. 0, also where there was no job, with the job's result in *ret_result (may be NULL); -ETIMEDOUT. */
int guard_wait(uint64_t patience, int *ret_result);

/* How many ns a job has been running, 0 = no job is running. Adds up the times between calls of this function, counted
 * as above, so it must be called often. */
uint64_t guard_busy(void);

/* Gives up on the job that is running: from now on there is no guard, and `cleanup` (may be NULL) runs on its thread when the
 * job returns. 1, or 0 where the job has ended after all and nothing was given up. */
int guard_abandon(void (*cleanup)(void));

/* Ends the thread. No job is running. */
void guard_stop(void);

#endif
