/* watched.h - a look at a process that ends in time, whatever the process does: a read that it keeps waiting (userfaultfd, FUSE) ends only
 * when the reader does. */
#ifndef PROFD_CLIENT_PROCESS_WATCHED_H
#define PROFD_CLIENT_PROCESS_WATCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is told of such a process; its pid is a long long. */
#define WATCHED_SENTENCE "process %lld keeps whoever reads its memory waiting: it was not looked into"

/* How long a process may keep its reader waiting. */
#define WATCHED_SECONDS 20
#define WATCHED_STILL_SECONDS 2

/* Runs work(context) on a thread of its own. False where it was kept waiting for so many seconds; a thread that works, however slowly, gets up
 * to six times as long. It may still run then, so what it uses must stay. */
bool watched_run(void (*work)(void *context), void *context, unsigned seconds);
/* The same; still(context) is called once where it has not come back after WATCHED_STILL_SECONDS, which is long for who waits at a terminal. */
bool watched_run_told(void (*work)(void *context), void *context, unsigned seconds, void (*still)(void *context));
/* The same for many, side by side: work(contexts[i]), and came[i] says whether that came back. What keeps its thread waiting does not hold the
 * others up; after `most` seconds whatever has not come back, or has not begun, is given up. */
void watched_run_all(void (*work)(void *context), void *const *contexts, bool *came, size_t count, unsigned seconds,
		     unsigned most);
/* Runs work(context) in a process of its own and returns what it returns, 0 to 255; -1 where that keeps it waiting for so many seconds. For files: a
 * thread that waits for one (FUSE, a server of NFS) may be one that not even our own end ends. */
int watched_apart(int (*work)(const void *context), const void *context, unsigned seconds);
/* One; where it does not come back the program ends with a sentence. */
void watched_or_end(int64_t pid, void (*work)(void *context), void *context);

#endif
