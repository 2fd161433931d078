/* enter.h - how a process is entered: the ways in, and the start of the agent's threads. */
#ifndef PROFD_AGENT_ENTER_H
#define PROFD_AGENT_ENTER_H

/* The way in: starts the agent's thread, once in a process; later calls only add to what HELLO says. `entry` is of enum
 * agent_entry. Cheap and silent; may be called from any thread, from constructors and from inside a foreign library's
 * initialisation. */
void enter_process(unsigned entry);
unsigned enter_ways(void);

/* The way in for `profd attach`, which has loaded the library into a process that ran already. Returns 1 where the agent runs. */
int enter_attached(const char *socket);

/* Forks mind the gate from now on (gate.h), if the agent may run here at all. enter_process() does it too. */
void enter_watch_forks(void);

/* The preloaded agent saw a library with this name being opened (NULL: the program itself). */
void enter_library_seen(const char *name);

#endif
