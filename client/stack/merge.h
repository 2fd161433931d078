/* merge.h - one stack of a thread's native frames and its frames of Python. */
#ifndef PROFD_CLIENT_STACK_MERGE_H
#define PROFD_CLIENT_STACK_MERGE_H

#include "read.h"

#include "client/native/unwind.h"

/* Puts native frames among the thread's frames: each call of CPython's loop gives way to the frames of Python that it runs. Where they do not
 * go together, or there are none, the thread stays as it is and says why. */
void stack_merge(struct stack_thread *thread, const struct native_stand *stand, const struct native_stack *native,
		 unsigned minor);

#endif
