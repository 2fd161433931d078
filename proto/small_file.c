/* small_file.c - see small_file.h. */
#include "small_file.h"
#include "system.h"

#include <errno.h>
#include <fcntl.h>

/* How often a file is opened again if its descriptor was lost while it was read. */
#define TRIES 3

static int failed(int saved)
{
	int error = -errno;
	errno = saved;
	return error;
}

static void fill(struct small_file *ret, int fd, const struct stat *is)
{
	*ret = (struct small_file){fd, is->st_dev, is->st_ino, is->st_mode & S_IFMT};
}

int small_file_of(int fd, struct small_file *ret)
{
	struct stat is;
	int saved = errno;
	if (system_fstat(fd, &is) < 0)
		return failed(saved);
	fill(ret, fd, &is);
	return 0;
}

bool small_file_is(const struct small_file *file)
{
	struct small_file now;
	return small_file_of(file->fd, &now) == 0 && now.device == file->device && now.inode == file->inode &&
	       now.type == file->type;
}

int small_file_open(struct small_file *ret, const char *path, int flags)
{
	struct stat named;
	int saved = errno;
	/* Does not block, because a path may lead to a pipe or a device. */
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	if (fd < 0)
		return failed(saved);
	int error = small_file_of(fd, ret);
	if (error < 0)
		return error;
	/* The inode is not compared: some file systems (FUSE) may show another number at each look. If the file is gone
	 * since, as that of a thread may be, there is nothing to compare with. */
	bool ours =
		system_stat(path, &named) < 0 || (named.st_dev == ret->device && (named.st_mode & S_IFMT) == ret->type);
	errno = saved;
	return ours ? 0 : -EBADF;
}

void small_file_close(const struct small_file *file)
{
	int saved = errno;
	if (small_file_is(file))
		system_close(file->fd);
	errno = saved;
}

/* One read, from the current position or (again) from the beginning. Returns the bytes, or a negative errno; -EBADF
 * where the descriptor was lost. */
static long read_once(const struct small_file *file, char *to, size_t bytes, bool again)
{
	int saved = errno;
	long n;
	do {
		if (!small_file_is(file))
			return -EBADF;
		n = again ? syscall(SYS_pread64, file->fd, to, bytes, 0l) : syscall(SYS_read, file->fd, to, bytes);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		n = -errno;
	errno = saved;
	return small_file_is(file) ? n : -EBADF;
}

long small_file_once(const struct small_file *file, char *to, size_t bytes)
{
	long n = read_once(file, to, bytes - 1, true);
	to[n < 0 ? 0 : n] = 0;
	return n;
}

static long read_whole(const char *path, char *to, size_t bytes)
{
	struct small_file file;
	size_t n = 0;
	long r = small_file_open(&file, path, O_RDONLY);
	if (r < 0)
		return r;
	while (n < bytes - 1 && (r = read_once(&file, to + n, bytes - 1 - n, false)) > 0)
		n += (size_t)r;
	if (r == -EBADF)
		return r;
	small_file_close(&file);
	return r < 0 && n == 0 ? r : (long)n;
}

long small_file_read(const char *path, char *to, size_t bytes)
{
	long n = -EBADF;
	for (unsigned tries = 0; tries < TRIES && n == -EBADF; tries++)
		n = read_whole(path, to, bytes);
	to[n < 0 ? 0 : n] = 0;
	return n;
}
