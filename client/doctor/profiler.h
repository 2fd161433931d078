/* profiler.h - does torch.profiler record in a process? */
#ifndef PROFD_CLIENT_DOCTOR_PROFILER_H
#define PROFD_CLIENT_DOCTOR_PROFILER_H

#include "client/ui/table.h"

#include <stdint.h>

/* Adds a row where it does: seen from outside, in the memory of the process's Python, as far as its owner allows. */
void doctor_profiler(int64_t pid, struct table *checks);

#endif
