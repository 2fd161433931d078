/* fuzz_client_lock.c - the file by which runs of `profd snapshot` wait for each other: whatever stands in it, the next run finds
 * that the lock is held, and says a pid or none; whatever a lock is called, its file lies in the folder. */
#include "client/snapshot/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static char folder[] = "/tmp/fuzz_lock.XXXXXX";

static void remove_folder(void)
{
	char path[64];

	snprintf(path, sizeof path, "%s/profd", folder);
	rmdir(path);
	rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static bool made;
	struct lock first, second;
	char *name = malloc(n + 1);

	if (!name)
		return 0;
	if (!made && !mkdtemp(folder))
		abort();
	if (!made)
		atexit(remove_folder);
	made = true;
	setenv("XDG_RUNTIME_DIR", folder, 1);
	memcpy(name, data, n);
	name[n] = 0;
	if (lock_take(&first, name) != 0 || strncmp(first.path, folder, strlen(folder)) != 0)
		abort();
	if (ftruncate(first.fd, 0) < 0 || pwrite(first.fd, data, n, 0) != (ssize_t)n)
		abort();
	if (lock_take(&second, name) != -EWOULDBLOCK || second.fd >= 0 || second.holder < 0)
		abort();
	unlink(first.path);
	lock_release(&second);
	lock_release(&first);
	free(name);
	return 0;
}
