/* resolve.h - openat2(2): a path below a folder that somebody else may have made. */
#ifndef PROFD_CLIENT_PROCESS_RESOLVE_H
#define PROFD_CLIENT_PROCESS_RESOLVE_H

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/openat2.h and its number, which older headers lack. */
#define NUMBER_OPENAT2 437
#define RESOLVE_MOUNTS_NOT 0x01 /* of none, also where a folder of the same file system is mounted */
#define RESOLVE_MAGICLINKS_NOT 0x02
#define RESOLVE_SYMLINKS_NOT 0x04
#define RESOLVE_ONLY_BELOW 0x08 /* what would lead out fails */
#define RESOLVE_BELOW_ROOT 0x10 /* what would lead out stays in there, as if the folder were the root */

/* A descriptor, or -1 with errno: ENOSYS before Linux 5.6. */
static inline int resolve(int folder, const char *path, int flags, uint64_t how)
{
	const struct {
		uint64_t flags, mode, resolve;
	} wanted = {(uint64_t)flags, 0, how};

	return (int)syscall(NUMBER_OPENAT2, folder, path, &wanted, sizeof wanted);
}

#endif
