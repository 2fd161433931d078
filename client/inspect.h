/* inspect.h - a look at a process from outside, through /proc, as far as its owner allows, and at the machine. */
#ifndef PROFD_CLIENT_INSPECT_H
#define PROFD_CLIENT_INSPECT_H

#include "table.h"

#include <stdbool.h>
#include <stdint.h>

/* Adds rows (check, result, sentence) that say why the process is not registered and how to start it with the agent.
 * Returns 0, or -ENOENT where there is no such process. */
int inspect_process(int64_t pid, struct table *checks);

/* Of a process that lives in a container (another pid or mount namespace): adds rows on whether the daemon's socket and the
 * preloaded agent are to be found in there. */
void inspect_container(int64_t pid, struct table *checks);
/* Of a program of 32 bits: adds a row and returns true. */
bool inspect_class(int64_t pid, struct table *checks);

/* Adds rows about CUDA: its driver, the GPUs, and variables that get in the way of tracing. */
void inspect_cuda(struct table *checks);

/* In command/doctor.c: adds one such row. `result` is "ok", "warning" or "failed". */
void doctor_check(struct table *table, const char *check, const char *result, const char *sentence);

#endif
