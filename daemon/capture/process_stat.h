/* process_stat.h - what /proc/PID/stat says of any process of the daemon's pid namespace. */
#ifndef PROFD_DAEMON_CAPTURE_PROCESS_STAT_H
#define PROFD_DAEMON_CAPTURE_PROCESS_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Start time in clock ticks of a living process, 0 where it is gone (or a zombie). */
uint64_t process_start_time(pid_t pid);
/* Its parent's pid, 0 where it is not known. */
pid_t process_parent(pid_t pid);
/* Has the agent's connection ended because its process ends? The kernel closes a process's files while it still has an entry in /proc, and
 * maybe other threads that have not ended yet. */
bool process_has_ended(pid_t pid, uint64_t start_time);

/* Is it stopped by a signal or a debugger? */
bool process_is_stopped(pid_t pid);

#endif
