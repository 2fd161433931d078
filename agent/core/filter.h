/* filter.h - has the process taken system calls from itself since it began? What a seccomp filter forbids may end the whole process,
 * and nobody can ask it what it forbids; a job allows what it needs itself, and knows nothing of us. So from then on the agent makes
 * no calls. A filter that was there from the beginning (a container's, a service's) is meant for any program. */
#ifndef PROFD_AGENT_CORE_FILTER_H
#define PROFD_AGENT_CORE_FILTER_H

#include <stdint.h>

/* When the agent is loaded. */
void filter_remember(void);

/* 1 where the calling thread or the main thread has a filter that was not there at the beginning. Opens, reads and closes, as whoever
 * loads a library does; nothing else. */
int filter_is_new(void);

/* The same for threads of the agent's, which look again and again, at most every so often; what one has found holds for all, and for
 * good. They began with filter_is_new() false, and lay none over themselves. */
int filter_is_new_by(uint64_t now);

/* 1 where any thread has a filter that was not there at the beginning: what the recorder does at a thread's first event may be
 * forbidden to it. Asks by the keeper. Looks at threads that it has not looked at for some seconds; at all of them where `anew`. The
 * agent's thread. */
int filter_is_over_a_thread(uint64_t now, int anew);

#endif
