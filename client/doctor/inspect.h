/* inspect.h - a look at a process from outside, through /proc, as far as its owner allows. */
#ifndef PROFD_CLIENT_DOCTOR_INSPECT_H
#define PROFD_CLIENT_DOCTOR_INSPECT_H

#include "client/ui/table.h"

#include <stdbool.h>
#include <stdint.h>

/* Adds rows (check, result, sentence) that say why the process is not registered and how to start it with the agent.
 * Returns 0, or -ENOENT where there is no such process. */
int inspect_process(int64_t pid, struct table *checks);

/* Has the process more than one copy of the agent? Then a sentence on them. */
bool inspect_copies(int64_t pid, char *sentence, size_t bytes);

#endif
