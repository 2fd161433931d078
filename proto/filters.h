/* filters.h - seccomp filters: how many a process or thread has, as the kernel tells everybody. */
#ifndef PROFD_PROTO_FILTERS_H
#define PROFD_PROTO_FILTERS_H

#include <stdint.h>

/* Reads a /proc/.../status. The number of filters (before Linux 5.9: 2 where there is any); a negative errno where it cannot be
 * read. Opens, reads and closes by plain system calls; keeps errno. */
int filters_of(const char *status_path);
/* The same for a living thread; -ESRCH: the thread has ended, and its filters tell nothing about other threads. */
int filters_of_living(const char *status_path);

/* Threads that have been looked at. Zero it before the first use, and to look at all of them again. */
#define FILTERS_SEEN 2048u
struct filters_seen {
	uint32_t tids[FILTERS_SEEN];
	uint32_t count;
};
/* The tid of a thread in `folder` (/proc/PID/task) that has more than so many filters; 0: no thread has, or the folder
 * cannot be listed. Looks at FILTERS_SEEN threads at most, and only at those that it has not seen before. */
uint32_t filters_of_threads(const char *folder, int more_than, struct filters_seen *seen);
/* The sentence about such a process. */
extern const char filters_thread_sentence[];

#endif
