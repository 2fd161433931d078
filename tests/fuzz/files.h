/* files.h - files whose texts follow each other in a fuzz target's input, with \xff between: each that is opened takes the next one. */
#ifndef PROFD_FUZZ_FILES_H
#define PROFD_FUZZ_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* No reader opens more for one input of usual size: one that does may never end. */
#define FILES_MOST 16384

static struct {
	const uint8_t *at;
	size_t left;
	unsigned opened;
} files;

static inline void files_begin(const uint8_t *data, size_t n)
{
	files.at = data;
	files.left = n;
	files.opened = 0;
}

/* The next file's bytes. Empty: there is none any more. */
static inline size_t files_next(const uint8_t **ret)
{
	if (++files.opened > FILES_MOST)
		abort();
	*ret = files.at;
	const uint8_t *end = files.left ? memchr(files.at, 0xff, files.left) : NULL;
	size_t n = end ? (size_t)(end - files.at) : files.left, all = n + (n < files.left);
	files.at += all;
	files.left -= all;
	return n;
}

/* The same as a stream; NULL: the file is not there. */
static inline FILE *files_stream(void)
{
	const uint8_t *bytes;
	size_t n = files_next(&bytes);
	return n ? fmemopen((void *)(uintptr_t)bytes, n, "r") : NULL;
}

/* The same as a descriptor; negative: the file is not there. */
static inline int files_open(void)
{
	const uint8_t *bytes;
	size_t n = files_next(&bytes);
	int fd = n ? memfd_create("file", MFD_CLOEXEC) : -1;
	if (fd >= 0 && pwrite(fd, bytes, n, 0) != (ssize_t)n)
		abort();
	return fd;
}

#endif
