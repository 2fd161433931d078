/* watched.h - a look at a process that ends in time, whatever the process does: a read that it keeps waiting (userfaultfd, FUSE) ends only
 * when the reader does. */
#ifndef PROFD_CLIENT_PROCESS_WATCHED_H
#define PROFD_CLIENT_PROCESS_WATCHED_H

#include <stdbool.h>
#include <stdint.h>

/* Runs work(context) on a thread of its own. False where it does not come back within 20 seconds: it may still run, so what it uses must
 * stay. */
bool watched_run(void (*work)(void *context), void *context);
/* The same; where it does not come back the program ends with a sentence. */
void watched_or_end(int64_t pid, void (*work)(void *context), void *context);

#endif
