/* lock.h - one run at a time: a locked file in the user's own folder, given back by the kernel however a run ends. */
#ifndef PROFD_CLIENT_SNAPSHOT_LOCK_H
#define PROFD_CLIENT_SNAPSHOT_LOCK_H

#include <limits.h>

struct lock {
	int fd; /* -1: not held */
	char path[PATH_MAX];
	long holder; /* pid of who has it; 0 = not known */
};

/* Takes the lock `name` (any text). 0; -EWOULDBLOCK where another run has it (ret->holder); another negative errno
 * where there is no folder that is ours alone (ret->path says which was tried last). lock_release in every case. */
int lock_take(struct lock *ret, const char *name);
void lock_release(struct lock *lock);

#endif
