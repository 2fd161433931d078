/* filters.h - seccomp filters: how many a process or thread has, as the kernel tells everybody. */
#ifndef PROFD_PROTO_FILTERS_H
#define PROFD_PROTO_FILTERS_H

/* Reads a /proc/.../status. The number of filters (before Linux 5.9: 2 where there is any); a negative errno where it cannot be
 * read. Opens, reads and closes by plain system calls; keeps errno. */
int filters_of(const char *status_path);
/* The same of a thread that lives; -ESRCH: it has ended, and what it had says nothing of the others. */
int filters_of_living(const char *status_path);

#endif
