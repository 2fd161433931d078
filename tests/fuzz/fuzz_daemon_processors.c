/* fuzz_daemon_processors.c - cgroups as the kernel, or a file system that a container brings, shows them to the daemon, and the line of
 * a process's state, whose name the process chooses. See files.h.
 * wrap: open */
#include "daemon/capture/process_stat.h"
#include "daemon/capture/processors.h"
#include "files.h"

#include <fcntl.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int __wrap_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
	if (strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0)
		return openat(AT_FDCWD, path, flags, 0600);
	return files_open();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct store_processors found = {0};
	files_begin(data, n);
	processors_read_cgroup("/proc", "/sys/fs/cgroup", 100, &found);
	/* 8,192 processors, in thousandths. */
	if (found.limit > 8192000)
		abort();
	struct store_processors moved = processors_between(&(struct store_processors){.limit = found.limit}, &found);
	if (moved.periods > found.periods || moved.stopped > found.stopped)
		abort();
	files_begin(data, n);
	process_start_time(100);
	process_parent(100);
	process_has_ended(100, 1);
	return 0;
}
