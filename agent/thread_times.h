/* thread_times.h - how much processor time the step's thread and the loader's workers took during the recording. The
 * agent's thread reads it, because a system call costs the step's own thread too much, and a seccomp filter of the job
 * may forbid it there. Agent's thread only. */
#ifndef PROFD_AGENT_THREAD_TIMES_H
#define PROFD_AGENT_THREAD_TIMES_H

#include <stdint.h>

/* Before the recording: forgets the times of the last one, and reads them for the first time. */
void thread_times_begin(void);
/* While recording, each time that the agent's thread is awake: reads the times if that is due. `thread`: the step's, 0
 * = not known yet. Returns when they are to be read again. */
uint64_t thread_times_work(uint64_t now, uint32_t thread);
/* After the recording: reads the times for the last time. `thread` is the step's thread. */
void thread_times_end(uint32_t thread);
/* Writes the times, while the sink still takes records. Where no chunk is free it waits for one until `deadline`,
 * unless the daemon wants no more of this capture. */
void thread_times_write(uint64_t capture, uint64_t deadline);

#endif
