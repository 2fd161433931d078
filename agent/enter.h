/* enter.h - how a process is entered: the ways in, and the start of the agent's threads. */
#ifndef PROFD_AGENT_ENTER_H
#define PROFD_AGENT_ENTER_H

/* The way in: starts the agent's thread, once in a process; later calls only add their way in to HELLO. `entry` is of
 * enum agent_entry. Cheap and silent. May be called from any thread, from constructors and from inside a foreign
 * library's initialisation. */
void enter_process(unsigned entry);
unsigned enter_ways(void);

/* The way in for `profd attach`, which has loaded the library into a process that ran already. Returns 1 where the agent runs. */
int enter_attached(const char *socket);

/* From now on forks wait at the gate (gate.h), if the agent may run here at all. enter_process() calls it, too. */
void enter_watch_forks(void);

/* The preloaded agent saw a library with this name being opened (NULL: the program itself). */
void enter_library_seen(const char *name);

#endif
