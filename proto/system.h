/* system.h - system calls whose C library wrappers are younger than glibc 2.17 (fstat and stat became symbols in 2.33,
 * memfd_create in 2.27). Their kernel interface is older than any glibc, and the layout of struct stat is the kernel's
 * on the 64-bit machines that profd runs on. All return what the wrapper would: -1 with errno. */
#ifndef PROFD_PROTO_SYSTEM_H
#define PROFD_PROTO_SYSTEM_H

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SYSTEM_MFD_CLOEXEC 1u
#define SYSTEM_MFD_ALLOW_SEALING 2u

static inline int system_memfd(const char *name, unsigned flags)
{
	return (int)syscall(SYS_memfd_create, name, flags);
}

static inline int system_fstat(int fd, struct stat *ret)
{
	return (int)syscall(SYS_fstat, fd, ret);
}

/* Follows symbolic links. */
static inline int system_stat(const char *path, struct stat *ret)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret, 0);
}

static inline int system_lstat(const char *path, struct stat *ret)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW);
}

/* A job may have replaced close() by a function that would take the number for one of its own. This one calls the kernel. */
static inline int system_close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

/* A descriptor of the caller's pid namespace: a peer in another namespace needs it to know which process a pid means.
 * -1 where /proc is not mounted. CLOEXEC. */
static inline int system_pid_namespace(void)
{
	return (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/ns/pid", O_RDONLY | O_CLOEXEC, 0);
}

#endif
