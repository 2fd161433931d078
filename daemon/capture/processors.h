/* processors.h - how many processors a process may use: by its affinity, and by the quota of its cgroup; and how often
 * the quota has stopped it. Any thread. */
#ifndef PROFD_DAEMON_CAPTURE_PROCESSORS_H
#define PROFD_DAEMON_CAPTURE_PROCESSORS_H

#include "store/store.h"

#include <stdint.h>
#include <sys/types.h>

/* Reads the limits of a living process. periods and stopped count from the cgroup's beginning. A figure that cannot be
 * read is 0; all are 0 if the pid belongs to another process by now. */
void processors_read(pid_t pid, uint64_t start_time, struct store_processors *ret);
/* The same with other places for /proc and /sys/fs/cgroup, without affinity and start time: for tests. */
void processors_read_cgroup(const char *proc, const char *cgroups, pid_t pid, struct store_processors *ret);

/* What has happened between two readings. */
struct store_processors processors_between(const struct store_processors *before, const struct store_processors *after);

#endif
