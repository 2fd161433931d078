/* small_file.h - reads files in a process where others may close any descriptor, and at once open another file with its
 * number. A number is ours as long as it is the file that we opened: device, inode and type are compared before each
 * use and before it is closed. Bytes that were read are used only if the number is still ours afterwards.
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

/* Finds out which file has this number now. 0 or a negative errno. */
int small_file_of(int fd, struct small_file *ret);
/* 0 or a negative errno; -EBADF: the number belonged to another file before it could be checked, and is not touched. */
int small_file_open(struct small_file *ret, const char *path, int flags);
bool small_file_is(const struct small_file *file);
/* Closes it if it is still ours. */
void small_file_close(const struct small_file *file);

/* Reads up to bytes - 1 bytes from the file's beginning, ended by a NUL, in one read: most files of /proc give no more.
 * A negative errno where the number is not ours any more. */
long small_file_once(const struct small_file *file, char *to, size_t bytes);
/* The same for a path, to the file's end, or as far as there is room. */
long small_file_read(const char *path, char *to, size_t bytes);

#endif
