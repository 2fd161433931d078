/* old_glibc.h - force-included into daemon and client where they are built for a glibc as old as the agent's (2.17), or on
 * one: the functions that are younger and that they use. The headers of such a glibc do not declare them. */
#ifndef PROFD_OLD_GLIBC_H
#define PROFD_OLD_GLIBC_H

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__GLIBC__) && !__GLIBC_PREREQ(2, 25)
#ifndef GRND_NONBLOCK
#define GRND_NONBLOCK 1
#endif
static inline ssize_t getrandom(void *buffer, size_t bytes, unsigned flags)
{
	return syscall(SYS_getrandom, buffer, bytes, flags);
}
#endif

#if defined(__GLIBC__) && !__GLIBC_PREREQ(2, 26)
static inline void *reallocarray(void *held, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(held, bytes);
}
#endif

#if defined(__GLIBC__) && !__GLIBC_PREREQ(2, 28)
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif
static inline int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
	return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}
#endif

#if defined(__GLIBC__) && !__GLIBC_PREREQ(2, 34)
/* By the kernel's close_range (5.9), else by what /proc lists, else by number. */
static inline void old_closefrom(int first)
{
	DIR *folder;
	struct dirent *entry;

	if (syscall(436, (unsigned)first, ~0u, 0u) == 0)
		return;
	folder = opendir("/proc/self/fd");
	if (!folder) {
		for (int fd = first, end = (int)sysconf(_SC_OPEN_MAX); fd < end; fd++)
			close(fd);
		return;
	}
	while ((entry = readdir(folder))) {
		int fd = (int)strtol(entry->d_name, NULL, 10);

		if (fd >= first && fd != dirfd(folder))
			close(fd);
	}
	closedir(folder);
}
#define closefrom old_closefrom
#endif

#endif
