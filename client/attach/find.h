/* find.h - the processes of a job that nobody prepared: found by what launchers have put into their environment. */
#ifndef PROFD_CLIENT_ATTACH_FIND_H
#define PROFD_CLIENT_ATTACH_FIND_H

#include <stddef.h>
#include <stdint.h>

/* Processes of this job whose name matches (NULL: any), that an agent would register for: of those that the caller may
 * look into, those with torch or CUDA; not what launches them, and no forked child. An array (to be freed) of *count pids. */
int64_t *find_unprepared(const char *job, const char *name, size_t *count);

#endif
