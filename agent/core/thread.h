/* thread.h - how the agent starts threads of its own: with all signals blocked, with stacks that are large enough
 * whatever thread-local storage the job has, and with the processors and the priority that the process began with.
 * Those of the thread that happens to start them do not count. */
#ifndef PROFD_AGENT_CORE_THREAD_H
#define PROFD_AGENT_CORE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Remembers what the process begins with. Once, when the agent is loaded. */
void thread_remember(void);

/* Starts a thread that needs `stack` bytes for itself: it can be joined where `ret` is not NULL. 0 or a negative errno.
 * Inside the gate. */
int thread_start(pthread_t *ret, void *(*body)(void *), void *argument, size_t stack);

/* Gives the calling thread, a thread of the agent, what thread_remember() has seen; threads that it starts inherit
 * that. What the kernel refuses stays as it is. */
void thread_settle(void);

#endif
