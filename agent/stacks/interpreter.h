/* interpreter.h - reads this process's Python as if it were that of another process: by copies, which fail for unmapped
 * memory, without a call into Python and without its lock. The agent's thread only. */
#ifndef PROFD_AGENT_STACKS_INTERPRETER_H
#define PROFD_AGENT_STACKS_INTERPRETER_H

#include "proto/python/code.h"

#include <stddef.h>

/* Finds Python and its layout. 0, or a negative errno with the reason in `sentence`. */
int interpreter_find(struct python *ret, char *sentence, size_t bytes);

/* The same by plain loads from loaded objects, so that no system call is needed. False: Python is not known, has not
 * started yet, or is ending. The reader in `ret` may be used for nothing else. Inside the gate. */
bool interpreter_layout(struct python *ret);

/* May Python's objects be read as dict.h does? Checks objects that every Python has, until the check succeeds once. 0,
 * or a negative errno with the reason in `sentence`. */
int interpreter_prove(struct python *python, char *sentence, size_t bytes);

/* Both: interpreter_find() and interpreter_prove(). */
int interpreter_find_proved(struct python *ret, char *sentence, size_t bytes);

/* Does torch's own profiler record in this process? Also false where that cannot be read. */
bool interpreter_profiles(void);

/* Is this process's program Python itself, and not another program with Python inside? Decides by its name. */
bool interpreter_is_program(void);

/* The address of Python's symbol with this name; NULL: there is none. */
void *interpreter_symbol(const char *name);

/* Is the interpreter ending, or has it ended? */
bool interpreter_is_ending(struct python *python);

/* The kernel's id of a thread, also where Python does not keep it; 0: not known. */
uint32_t interpreter_tid(struct python *python, const struct python_thread *thread);

#endif
