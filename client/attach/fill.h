/* fill.h - the agent's library in the memory file that a process has just made for it. */
#ifndef PROFD_CLIENT_ATTACH_FILL_H
#define PROFD_CLIENT_ATTACH_FILL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What the loader needs of a library: up to the end of its last segment. Symbols for debuggers stay behind. 0: it is none for this machine. */
size_t fill_needed(const unsigned char *library, size_t bytes);
/* Writes into the file that the process has under this number (*made: which one it is), if it is the empty memfd that it has just made: a
 * hostile one may put another file there, and we may be root. 0 or a negative errno. */
int fill_memfd(int64_t pid, int fd, const unsigned char *library, size_t bytes, ino_t *made);

/* A memory file of our own with the library, which nobody can change any more, for a process that may open it by our number in /proc: one of our own user
 * that sees the same files and numbers. So no thread stands while it is written. A descriptor; -1: it may not, or there
 * is none. */
int fill_own(int64_t pid, const unsigned char *library, size_t bytes, const char *name);

#endif
