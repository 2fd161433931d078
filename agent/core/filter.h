/* filter.h - has the process got a new seccomp filter since it began? A forbidden system call may end the whole
 * process, and nobody can ask a filter what it forbids. A job's own filter allows what the job needs, and knows nothing
 * of us. So from then on the agent makes no system calls. A filter that was there from the beginning (a container's, a
 * service's) is made for any program. */
#ifndef PROFD_AGENT_CORE_FILTER_H
#define PROFD_AGENT_CORE_FILTER_H

#include <stdint.h>

/* When the agent is loaded. */
void filter_remember(void);

/* 1 where the calling thread or the main thread has a filter that was not there at the beginning. Only opens, reads and
 * closes files, as loading a library does. */
int filter_is_new(void);

/* The same for threads of the agent, which ask again and again. It looks once in a millisecond at most. If one thread
 * finds a filter, all are told so from then on. filter_is_new() was false when these threads began, and they set no
 * filter themselves. */
int filter_is_new_by(uint64_t now);

/* 1 where any thread has a filter that was not there at the beginning: that filter may forbid what the recorder does at
 * the thread's first event. The keeper reads the files. A thread is looked at once in some seconds; with `anew` all
 * threads are looked at now. The agent's thread. */
int filter_is_over_a_thread(uint64_t now, int anew);

#endif
