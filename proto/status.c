/* status.c - the status page of one process: made and sealed by the daemon, mapped by the agent. No state. */
#include "status.h"
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Linux 3.17, glibc 2.27. */
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_GET_SEALS 1034
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#endif

int status_create(struct status_page **ret_page)
{
	int fd = system_memfd("profd-status", SYSTEM_MFD_CLOEXEC | SYSTEM_MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	void *map = MAP_FAILED;
	if (ftruncate(fd, STATUS_BYTES) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		map = mmap(NULL, STATUS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		int error = errno;
		close(fd);
		return -error;
	}
	struct status_page *page = map;
	page->magic = STATUS_MAGIC;
	page->version = 1;
	*ret_page = page;
	return fd;
}

int status_map(int fd, struct status_page **ret_page)
{
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0)
		return errno == EINVAL ? -EPROTO : -errno;
	if ((seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
		return -EPROTO;
	struct stat status;
	if (system_fstat(fd, &status) < 0)
		return -errno;
	if (status.st_size < STATUS_BYTES)
		return -EPROTO;
	struct status_page *page = mmap(NULL, STATUS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return errno == EPERM || errno == EACCES ? -EPROTO : -errno;
	if (page->magic != STATUS_MAGIC || page->version != 1) {
		status_unmap(page);
		return -EPROTO;
	}
	*ret_page = page;
	return 0;
}

void status_unmap(struct status_page *page)
{
	munmap(page, STATUS_BYTES);
}
