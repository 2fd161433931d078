/* small_file.h - files that are read in a process where others may close any descriptor, and open their own under its number at once.
 * A number is ours as long as it leads to the file that it was opened for: it is held against what that was (device, inode, type)
 * before each use and before it is closed. What is read is kept only if it still was ours afterwards.
 *
 * Plain system calls: openat, fstat, newfstatat, read or pread64, close. Keeps errno; no state. */
#ifndef PROFD_PROTO_SMALL_FILE_H
#define PROFD_PROTO_SMALL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct small_file {
	int fd;
	dev_t device;
	ino_t inode;
	mode_t type;
};

/* What the number leads to now. 0 or a negative errno. */
int small_file_of(int fd, struct small_file *ret);
/* 0 or a negative errno; -EBADF: it was somebody else's number before anybody could look, and is not touched. */
int small_file_open(struct small_file *ret, const char *path, int flags);
bool small_file_is(const struct small_file *file);
/* Closes it if it is still ours. */
void small_file_close(const struct small_file *file);

/* Up to bytes - 1 bytes from its beginning, ended by a NUL: one read, which is as much as most files of /proc give. A negative errno
 * where it is not ours any more. */
long small_file_once(const struct small_file *file, char *to, size_t bytes);
/* The same of a path, to its end, or as far as there is room. */
long small_file_read(const char *path, char *to, size_t bytes);

#endif
