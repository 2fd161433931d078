/* fuzz_agent_room.c - memory cgroups as the kernel, or a container's own file system, shows them to the agent: files by files the
 * input, with \xff between.
 * wrap: open */
#include "agent/core/room.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int __wrap_open(const char *path, int flags, ...);

static const uint8_t *bytes_of;
static size_t left;
static unsigned opened;

int __wrap_open(const char *path, int flags, ...)
{
	if (strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0)
		return openat(AT_FDCWD, path, flags, 0600);
	/* A path is as long as its buffer at most, and each level of it asks for four files. */
	if (++opened > 8192)
		abort();
	const uint8_t *end = left ? memchr(bytes_of, 0xff, left) : NULL;
	size_t n = end ? (size_t)(end - bytes_of) : left;
	int fd = n ? memfd_create("cgroup", MFD_CLOEXEC) : -1;
	if (fd >= 0 && pwrite(fd, bytes_of, n, 0) < 0)
		abort();
	n += n < left;
	bytes_of += n;
	left -= n;
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	bytes_of = data;
	left = n;
	opened = 0;
	room_memory();
	room_space();
	return 0;
}
