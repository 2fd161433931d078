/* root.c - see root.h. The process that names a path may be hostile, and we may be root. So a path is looked up below
 * the process's own root, no link is followed to a file whose contents are read, and the inode is checked before the
 * file is opened. */
#include "root.h"

#include "client/process/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Before Linux 5.6: step by step, over no link. */
static int walk(int root, const char *path)
{
	int at = fcntl(root, F_DUPFD_CLOEXEC, 3);

	while (at >= 0 && *(path += strspn(path, "/"))) {
		char name[NAME_MAX + 1];
		size_t n = strcspn(path, "/");
		struct stat found;
		int next = -1, error = ENAMETOOLONG;

		if (n < sizeof name) {
			snprintf(name, sizeof name, "%.*s", (int)n, path);
			next = strcmp(name, "..") == 0 ? -1 : openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
			error = strcmp(name, "..") == 0 ? ELOOP : errno;
		}
		if (next >= 0 && fstat(next, &found) == 0 && S_ISLNK(found.st_mode)) {
			close(next);
			next = -1;
			error = ELOOP;
		}
		close(at);
		if (next < 0)
			return -error;
		at = next;
		path += n;
	}
	return at < 0 ? -errno : at;
}

/* A handle (O_PATH) of a file in the process's root: nothing is opened yet. */
static int look_up(int64_t pid, const char *path, bool links)
{
	char name[64];
	int root, fd;

	snprintf(name, sizeof name, "/proc/%lld/root", (long long)pid);
	root = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	fd = resolve(root, path, O_PATH | O_CLOEXEC | (links ? 0 : O_NOFOLLOW),
		     RESOLVE_BELOW_ROOT | RESOLVE_MAGICLINKS_NOT | (links ? 0 : RESOLVE_SYMLINKS_NOT));
	if (fd < 0)
		fd = errno == ENOSYS || errno == EPERM ? walk(root, path) : -errno;
	close(root);
	return fd;
}

int inspect_kind(int64_t pid, const char *path, mode_t kind)
{
	struct stat found;
	int fd = look_up(pid, path, true);
	int result = 0;

	if (fd >= 0) {
		result = fstat(fd, &found) < 0 ? -errno : (found.st_mode & S_IFMT) == kind;
		close(fd);
	} else if (fd != -ENOENT && fd != -ENOTDIR) {
		result = fd;
	}
	return result;
}

/* Could the process's user read it, too? Files of root count if everybody can read them and they have no second link. */
static bool is_readable(const struct stat *file, uid_t uid)
{
	return S_ISREG(file->st_mode) &&
	       (file->st_uid == uid || (file->st_uid == 0 && (file->st_mode & S_IROTH) && file->st_nlink == 1));
}

FILE *inspect_open(int64_t pid, const char *path, uid_t uid)
{
	char name[64];
	struct stat found;
	FILE *file = NULL;
	int fd = look_up(pid, path, false), open_fd = -1;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &found) == 0 && is_readable(&found, uid)) {
		/* Opens the inode that was checked, whatever the path names by now. */
		snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
		open_fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	}
	close(fd);
	file = open_fd >= 0 ? fdopen(open_fd, "r") : NULL;
	if (open_fd >= 0 && !file)
		close(open_fd);
	return file;
}
