/* watched.h - a reading that ends in time, whatever the process does. */
#ifndef PROFD_CLIENT_STACK_WATCHED_H
#define PROFD_CLIENT_STACK_WATCHED_H

#include "read.h"

/* stack_read() on a thread of its own. If that does not come back the program ends with a sentence: a read that the process keeps
 * waiting (userfaultfd, FUSE) can be ended in no other way. */
void stack_read_watched(int64_t pid, struct stack_process *ret);

#endif
