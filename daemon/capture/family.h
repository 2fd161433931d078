/* family.h - which registered processes belong together: a job's ranks, what launched them, what they have started.
 * Inferred from parents, ranks and steps, as far as these are seen. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_FAMILY_H
#define PROFD_DAEMON_CAPTURE_FAMILY_H

#include "registry.h"

enum role {
	ROLE_NONE,
	ROLE_LAUNCHER, /* shows no steps, and has started processes that do, or that are ranks */
	ROLE_WORKER,   /* shows no steps, and was started by one that does */
};

/* Fills process->ancestors now, because a parent may be gone later. */
void family_trace(struct process *process);
/* Is it the process of this pid and start time, or was it started by that one, directly or indirectly? */
bool family_is_of(const struct process *process, pid_t pid, uint64_t start_time);
enum role family_role(const struct process *process);
/* NULL for ROLE_NONE. */
const char *family_role_word(enum role role);
/* Order by which the processes of one job stand side by side; 0: they are of one job. For qsort of pointers. */
int family_by_job(const void *a, const void *b);
/* It shows no steps, others of its job do, and it is not one of the job's ranks: a user who names the job does not mean
 * it. */
bool family_is_bystander(const struct process *process);

#endif
