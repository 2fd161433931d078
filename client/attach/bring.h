/* bring.h - the whole way of an attachment: what is refused is refused before anything is touched, then one process after the other gets
 * the agent, until the daemon knows it. */
#ifndef PROFD_CLIENT_ATTACH_BRING_H
#define PROFD_CLIENT_ATTACH_BRING_H

#include "attach.h"
#include "find.h"

#include "client/link/connection.h"

#define BRING_PATIENCE_NS 10000000000ll

struct bring {
	struct daemons *daemons;
	int64_t patience; /* ns that each process gets to load the agent, and to register */
	/* Those of a job, or NULL: what is said of them has their ranks. */
	const struct found_process *found;
	size_t found_count;
};

/* Brings the agent into each of these processes, or into none: if one is refused beforehand nobody is touched. done[i] tells of pids[i].
 * Returns an exit code, after its sentence. */
int bring_agents(const struct bring *bring, const int64_t *pids, size_t count, struct attachment *done);

/* Those of the processes that have no agent get it, after a line that says so, and are waited for until they have shown a step where
 * `steps` is true. */
int bring_missing(const struct bring *bring, const int64_t *pids, size_t count, bool steps);

/* The same for what `find_unprepared` finds. */
int bring_found(const struct bring *bring, const char *job, const char *name, bool steps);

#endif
