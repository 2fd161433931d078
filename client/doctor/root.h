/* root.h - files that a process names, opened below its own root and with its own rights. */
#ifndef PROFD_CLIENT_DOCTOR_ROOT_H
#define PROFD_CLIENT_DOCTOR_ROOT_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Is `path`, which the process names, a file of this kind (S_IFREG, S_IFSOCK) in its root? 1, 0, or a negative errno. */
int inspect_kind(int64_t pid, const char *path, mode_t kind);
/* Opens such a file to be read, if it is a plain one that the process's user `uid` could read as well; else NULL. */
FILE *inspect_open(int64_t pid, const char *path, uid_t uid);

#endif
