/* fuzz_daemon_proc.c - /proc/PID/status of a hostile process, as the daemon reads it: its pids by namespace, its filters.
 * wrap: open readlink */
#include "daemon/core/namespaces.h"
#include "proto/filters.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_readlink(const char *path, char *to, size_t bytes);

static int file = -1;
static char path_of_file[64];
static const uint8_t *bytes_of;
static size_t bytes_left;

int __wrap_open(const char *path, int flags, ...)
{
	if (strncmp(path, "/proc/", 6) != 0 || file < 0)
		return openat(AT_FDCWD, path, flags, 0600);
	return openat(AT_FDCWD, path_of_file, O_RDONLY | O_CLOEXEC);
}

/* The name of a namespace. */
ssize_t __wrap_readlink(const char *path, char *to, size_t bytes)
{
	(void)path;
	size_t n = bytes_left < bytes ? bytes_left : bytes;
	n = n < 24 ? n : 24;
	memcpy(to, bytes_of, n);
	return (ssize_t)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct identity who = {.pid = 100};
	if (file < 0)
		file = memfd_create("status", MFD_CLOEXEC);
	snprintf(path_of_file, sizeof path_of_file, "/proc/self/fd/%d", file);
	if (file < 0 || ftruncate(file, 0) || pwrite(file, data, n, 0) != (ssize_t)n)
		return 0;
	bytes_of = data;
	bytes_left = n;
	uint64_t viewer = namespace_of_caller(1, 100, -1);
	for (int pid = 0; pid < 3; pid++)
		if (namespace_locate(&who, 1, pid, file)) {
			if (strnlen(who.pids, sizeof who.pids) == sizeof who.pids)
				abort();
			namespace_pid(&who, 1, viewer);
			namespace_pid(&who, 1, 4026531836);
		}
	if (filters_of(path_of_file) < -4095)
		abort();
	return 0;
}
