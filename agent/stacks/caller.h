/* caller.h - what the calling thread runs a network for, by the names of its functions of Python (proto/purpose.h). */
#ifndef PROFD_AGENT_STACKS_CALLER_H
#define PROFD_AGENT_STACKS_CALLER_H

#include "proto/purpose.h"

/* Finds Python, if it is not known yet. Inside the gate. */
void caller_find(void);
/* Of a call of torch's that the thread is in. PURPOSE_NONE too where it cannot be known: in another thread than the process's first, and of a Python that
 * lets go of what its frames hold while they are in sight. */
enum purpose caller_purpose(void);

#endif
