/* inspect.h - a look at a process from outside, through /proc, as far as its owner allows, and at the machine. */
#ifndef PROFD_CLIENT_INSPECT_H
#define PROFD_CLIENT_INSPECT_H

#include "client/ui/table.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Adds rows (check, result, sentence) that say why the process is not registered and how to start it with the agent.
 * Returns 0, or -ENOENT where there is no such process. */
int inspect_process(int64_t pid, struct table *checks);

/* Has the process more than one copy of the agent? Then a sentence on them. */
bool inspect_copies(int64_t pid, char *sentence, size_t bytes);

/* Of a process that lives in a container (another pid or mount namespace): adds rows on whether the daemon's socket and the
 * preloaded agent are to be found in there. */
void inspect_container(int64_t pid, struct table *checks);
/* Do the process's clocks count from elsewhere (a time namespace with an offset)? The daemon refuses it then. */
bool inspect_clocks(int64_t pid);
/* Of a program of 32 bits: adds a row and returns true. */
bool inspect_class(int64_t pid, struct table *checks);

/* Is `path`, which the process names, a file of this kind (S_IFREG, S_IFSOCK) in its root? 1, 0, or a negative errno. */
int inspect_kind(int64_t pid, const char *path, mode_t kind);
/* Opens such a file to be read, if it is a plain one that the process's user `uid` could read as well; else NULL. */
FILE *inspect_open(int64_t pid, const char *path, uid_t uid);

/* Adds rows about CUDA: its driver, the GPUs, and variables that get in the way of tracing. */
void inspect_cuda(struct table *checks);

/* In command/doctor.c: adds one such row. `result` is "ok", "warning" or "failed". */
void doctor_check(struct table *table, const char *check, const char *result, const char *sentence);

#endif
