/* find.h - the processes of a job, found by what launchers have put into their environment: no agent and no daemon has to know them. */
#ifndef PROFD_CLIENT_ATTACH_FIND_H
#define PROFD_CLIENT_ATTACH_FIND_H

#include <stddef.h>
#include <stdint.h>

struct found_process {
	int64_t pid;
	int rank; /* -1: its environment does not tell it */
};

/* Processes of this job whose name matches (NULL: any), that an agent would register for and that have none: of those that the caller
 * may look into, those with torch or CUDA; not what launches them, no forked child that is not seen to be a rank, and nothing that a rank has started to
 * help it. An array (to be freed) of *count. */
struct found_process *find_unprepared(const char *job, const char *name, size_t *count);
/* The same of all that run Python, with or without the agent. */
struct found_process *find_python(const char *job, const char *name, size_t *count);

#endif
