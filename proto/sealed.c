/* sealed.c - see sealed.h. No state. */
#include "sealed.h"
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Linux 3.17, glibc 2.27. */
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_GET_SEALS 1034
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#endif

int sealed_create(const char *name, uint64_t bytes)
{
	int fd = system_memfd(name, SYSTEM_MFD_CLOEXEC | SYSTEM_MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		int error = errno;
		close(fd);
		return -error;
	}
	return fd;
}

int sealed_check(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0)
		return errno == EINVAL ? -EPROTO : -errno;
	return (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SHRINK | F_SEAL_GROW) ? 0 : -EPROTO;
}
