/* caller.h - what the calling thread runs a network for, by the names of its Python functions (proto/purpose.h). */
#ifndef PROFD_AGENT_STACKS_CALLER_H
#define PROFD_AGENT_STACKS_CALLER_H

#include "proto/purpose.h"

/* Finds Python, if it is not known yet. Inside the gate. */
void caller_find(void);
/* The purpose of the call of torch that the thread is in. Also PURPOSE_NONE where it cannot be read: on other threads
 * than the process's first, and in a Python that may free objects of frames that can still be seen. */
enum purpose caller_purpose(void);

#endif
