/* process_stat.h - what the kernel says of any process of the daemon's pid namespace, by /proc/PID/stat. */
#ifndef PROFD_DAEMON_CAPTURE_PROCESS_STAT_H
#define PROFD_DAEMON_CAPTURE_PROCESS_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Start time in clock ticks of a living process, 0 where it is gone (or a zombie). */
uint64_t process_start_time(pid_t pid);
/* Its parent's pid, 0 where it is not known. */
pid_t process_parent(pid_t pid);
/* Of a process whose agent's connection has ended: is it because the process ends? Its files are closed while it still has an
 * entry, and maybe other threads that have not ended yet. */
bool process_has_ended(pid_t pid, uint64_t start_time);

#endif
