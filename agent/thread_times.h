/* thread_times.h - how much the step's thread ran while it was recorded, and the loader's workers: looked at from the agent's thread,
 * because a system call of the step's own thread costs more than a step may, and a filter of the job's may forbid it. Agent's
 * thread only. */
#ifndef PROFD_AGENT_THREAD_TIMES_H
#define PROFD_AGENT_THREAD_TIMES_H

#include <stdint.h>

/* Before the recording: forgets the last one's, and looks for the first time. */
void thread_times_begin(void);
/* While recording, each time that the agent's thread is awake: looks where it is time. `thread`: the step's, 0 = not known yet.
 * Returns when it wants to look again. */
uint64_t thread_times_work(uint64_t now, uint32_t thread);
/* After the recording: looks for the last time. What was seen of `thread` counts. */
void thread_times_end(uint32_t thread);
/* While the sink still takes records: writes what was seen. Where no chunk is free it waits for one, until `deadline` and for as
 * long as the daemon wants this capture. */
void thread_times_write(uint64_t capture, uint64_t deadline);

#endif
