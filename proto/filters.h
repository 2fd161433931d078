/* filters.h - seccomp filters: how many a process or thread has, as the kernel tells everybody. */
#ifndef PROFD_PROTO_FILTERS_H
#define PROFD_PROTO_FILTERS_H

#include <stdint.h>

/* Reads a /proc/.../status. The number of filters (before Linux 5.9: 2 where there is any); a negative errno where it cannot be
 * read. Opens, reads and closes by plain system calls; keeps errno. */
int filters_of(const char *status_path);
/* The same of a thread that lives; -ESRCH: it has ended, and what it had says nothing of the others. */
int filters_of_living(const char *status_path);

/* Threads that have been looked at. Zero it before the first use, and to look at all of them again. */
#define FILTERS_SEEN 2048u
struct filters_seen {
	uint32_t tids[FILTERS_SEEN];
	uint32_t count;
};
/* The number of a thread in /proc/PID/task, `folder`, that has more than so many filters; 0: none has, or it cannot be
 * listed. Looks at FILTERS_SEEN threads at most, and only at those that it has not seen before. */
uint32_t filters_of_threads(const char *folder, int more_than, struct filters_seen *seen);
/* What is said of such a process. */
extern const char filters_thread_sentence[];

#endif
