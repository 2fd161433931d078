/* textfile.c - see textfile.h. Thread: the metrics' own. No locks. */
#include "textfile.h"
#include "daemon/core/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens the folder; *ret_name is the rest of `path`. */
static int open_folder(const char *path, const char **ret_name)
{
	char folder[CONFIG_PATH_BYTES];
	const char *slash = strrchr(path, '/');
	if (!slash || !slash[1] || strlen(path) >= sizeof folder)
		return -EISDIR;
	size_t n = slash == path ? 1 : (size_t)(slash - path);
	memcpy(folder, path, n);
	folder[n] = 0;
	*ret_name = slash + 1;
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int write_all(int fd, const char *text, size_t n)
{
	while (n) {
		ssize_t written = write(fd, text, n);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		text += written;
		n -= (size_t)written;
	}
	return 0;
}

int textfile_write(const char *path, const char *text, size_t n)
{
	const char *name;
	char temporary[CONFIG_PATH_BYTES + 8];
	int folder = open_folder(path, &name);
	if (folder < 0)
		return folder;
	snprintf(temporary, sizeof temporary, ".%s.tmp", name);
	/* What a daemon that died in the middle has left. */
	unlinkat(folder, temporary, 0);
	int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	int error = fd < 0 ? -errno : 0;
	if (!error) {
		/* The umask is the store's. */
		error = fchmod(fd, 0644) ? -errno : write_all(fd, text, n);
		if (close(fd) && !error)
			error = -errno;
		if (!error && renameat(folder, temporary, folder, name))
			error = -errno;
		if (error)
			unlinkat(folder, temporary, 0);
	}
	close(folder);
	return error;
}

void textfile_remove(const char *path)
{
	const char *name;
	int folder = open_folder(path, &name);
	if (folder < 0)
		return;
	unlinkat(folder, name, 0);
	close(folder);
}
