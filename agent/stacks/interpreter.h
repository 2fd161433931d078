/* interpreter.h - the Python of this very process, read as if it were another's: by copies that fail where there is no memory, without
 * a call into it and without its lock. The agent's thread only. */
#ifndef PROFD_AGENT_STACKS_INTERPRETER_H
#define PROFD_AGENT_STACKS_INTERPRETER_H

#include "proto/python/code.h"

#include <stddef.h>

/* Finds it, and how it is laid out. 0, or a negative errno with the reason in `sentence`. */
int interpreter_find(struct python *ret, char *sentence, size_t bytes);

/* The same by loads alone, of what a loaded object has, so that no filter of system calls can mind. False: it is not known, or Python is not there
 * yet, or ends. What `ret` reads by then may read nothing else. Inside the gate. */
bool interpreter_layout(struct python *ret);

/* May its objects be read as dict.h does? What is known of every Python is looked up first, until it is found once. 0, or a negative errno with
 * the reason in `sentence`. */
int interpreter_prove(struct python *python, char *sentence, size_t bytes);

/* Both: finds it, and its objects may be read. */
int interpreter_find_proved(struct python *ret, char *sentence, size_t bytes);

/* Does torch's own profiler record in this process? False too where that cannot be read. */
bool interpreter_profiles(void);

/* Is this process's program Python's own, and no other one that has Python in it? By its name. */
bool interpreter_is_program(void);

/* What Python exports under this name; NULL: there is none. */
void *interpreter_symbol(const char *name);

/* Has it ended, or does it? */
bool interpreter_is_ending(struct python *python);

/* The kernel's id of a thread, also where Python does not keep it; 0: not known. */
uint32_t interpreter_tid(struct python *python, const struct python_thread *thread);

#endif
