/* thread.h - how the agent starts threads of its own: all signals blocked, stacks that suffice whatever the job has in thread-local
 * storage, and on the processors and with the priority that the process began with, not those of the thread that happened to start
 * them. */
#ifndef PROFD_AGENT_CORE_THREAD_H
#define PROFD_AGENT_CORE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Remembers what the process begins with. Once, when the agent is loaded. */
void thread_remember(void);

/* Starts a thread that needs `stack` bytes for itself: one that can be joined where `ret` is not NULL. 0 or a negative errno. Inside
 * the gate. */
int thread_start(pthread_t *ret, void *(*body)(void *), void *argument, size_t stack);

/* Gives the calling thread, the agent's first, what thread_remember() has seen; those that it starts inherit it. What the kernel
 * refuses stays as it is. */
void thread_settle(void);

#endif
