/* libfailing.c - a disk that fails on demand, preloaded into a daemon. FAILING_FOLDER is whose files count; FAILING_CONTROL names a
 * file, mapped shared, by which a test says which of the calls fail, while the daemon runs:
 *
 *     u32 calls    so many calls have been counted (the test may set it back)
 *     u32 from, to calls of these numbers fail, from 1 on; from 0 = none
 *     u32 error    with this errno; EAGAIN: they do not fail, but wait until from is 0
 *     u32 kinds    which calls are counted: bits WRITE, SYNC, RENAME, TRUNCATE, CREATE, ALLOCATE, LOOK below
 *     u32 failed   so many have failed */
#define _LARGEFILE64_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	WRITE = 1,
	SYNC = 2,
	RENAME = 4,
	TRUNCATE = 8,
	CREATE = 16,
	ALLOCATE = 32,
	LOOK = 64 /* open() of what is there */
};

struct control {
	_Atomic uint32_t calls, from, to, error, kinds, failed;
};

static struct control *control(void)
{
	static struct control *mapped;
	if (mapped || !getenv("FAILING_CONTROL"))
		return mapped;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, getenv("FAILING_CONTROL"), O_RDWR | O_CLOEXEC, 0);
	void *at = mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (fd >= 0 && at != MAP_FAILED)
		mapped = at;
	return mapped;
}

/* 1 where this call is to fail, with errno set. */
static int fails(uint32_t kind, const char *path)
{
	struct control *c = control();
	const char *folder = getenv("FAILING_FOLDER");
	if (!c || !folder || !(atomic_load(&c->kinds) & kind) || strncmp(path, folder, strlen(folder)) != 0)
		return 0;
	uint32_t number = atomic_fetch_add(&c->calls, 1) + 1, from = atomic_load(&c->from);
	if (!from || number < from || number > atomic_load(&c->to))
		return 0;
	atomic_fetch_add(&c->failed, 1);
	errno = (int)atomic_load(&c->error);
	if (errno != EAGAIN)
		return 1;
	while (atomic_load(&c->from))
		usleep(1000);
	return 0;
}

static int fails_fd(uint32_t kind, int fd)
{
	char link[64], path[PATH_MAX];
	struct control *c = control();
	if (!c || !(atomic_load(&c->kinds) & kind))
		return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	if (n < 0)
		return 0;
	path[n] = 0;
	return fails(kind, path);
}

static int fails_at(uint32_t kind, int folder, const char *path)
{
	return *path == '/' || folder == AT_FDCWD ? fails(kind, path) : fails_fd(kind, folder);
}

#define REAL(type, name, ...)                                                                                          \
	static type (*real)(__VA_ARGS__);                                                                              \
	if (!real)                                                                                                     \
	real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define PWRITE(name, offset_type)                                                                                      \
	ssize_t name(int fd, const void *bytes, size_t n, offset_type at)                                              \
	{                                                                                                              \
		REAL(ssize_t, name, int, const void *, size_t, offset_type);                                           \
		return fails_fd(WRITE, fd) ? -1 : real(fd, bytes, n, at);                                              \
	}
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t write(int fd, const void *bytes, size_t n)
{
	REAL(ssize_t, write, int, const void *, size_t);
	return fails_fd(WRITE, fd) ? -1 : real(fd, bytes, n);
}

int fsync(int fd)
{
	REAL(int, fsync, int);
	return fails_fd(SYNC, fd) ? -1 : real(fd);
}

int fdatasync(int fd)
{
	REAL(int, fdatasync, int);
	return fails_fd(SYNC, fd) ? -1 : real(fd);
}

#define FTRUNCATE(name, offset_type)                                                                                   \
	int name(int fd, offset_type at)                                                                               \
	{                                                                                                              \
		REAL(int, name, int, offset_type);                                                                     \
		return fails_fd(TRUNCATE, fd) ? -1 : real(fd, at);                                                     \
	}
FTRUNCATE(ftruncate, off_t)
FTRUNCATE(ftruncate64, off64_t)

#define FALLOCATE(name, offset_type)                                                                                   \
	int name(int fd, int mode, offset_type at, offset_type n)                                                      \
	{                                                                                                              \
		REAL(int, name, int, int, offset_type, offset_type);                                                   \
		return fails_fd(ALLOCATE, fd) ? -1 : real(fd, mode, at, n);                                            \
	}
FALLOCATE(fallocate, off_t)
FALLOCATE(fallocate64, off64_t)

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
	REAL(int, renameat, int, const char *, int, const char *);
	return fails_at(RENAME, from_folder, from) ? -1 : real(from_folder, from, to_folder, to);
}

#define OPEN(name)                                                                                                     \
	int name(const char *path, int flags, ...)                                                                     \
	{                                                                                                              \
		REAL(int, name, const char *, int, ...);                                                               \
		va_list more;                                                                                          \
		va_start(more, flags);                                                                                 \
		mode_t mode = va_arg(more, mode_t);                                                                    \
		va_end(more);                                                                                          \
		return fails(flags & O_CREAT ? CREATE : LOOK, path) ? -1 : real(path, flags, mode);                    \
	}
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                                   \
	int name(int folder, const char *path, int flags, ...)                                                         \
	{                                                                                                              \
		REAL(int, name, int, const char *, int, ...);                                                          \
		va_list more;                                                                                          \
		va_start(more, flags);                                                                                 \
		mode_t mode = va_arg(more, mode_t);                                                                    \
		va_end(more);                                                                                          \
		return flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) && fails_at(CREATE, folder, path)                \
			       ? -1                                                                                    \
			       : real(folder, path, flags, mode);                                                      \
	}
OPENAT(openat)
OPENAT(openat64)
