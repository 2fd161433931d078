/* status.c - the status page of one process: made and sealed by the daemon, mapped by the agent. No state. */
#include "status.h"
#include "sealed.h"
#include "system.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

int status_create(struct status_page **ret_page)
{
	int fd = sealed_create("profd-status", STATUS_BYTES);
	if (fd < 0)
		return fd;
	void *map = mmap(NULL, STATUS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
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
	int error = sealed_check(fd);
	if (error)
		return error;
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

void status_forget(struct status_page *page)
{
	madvise(page, STATUS_BYTES, MADV_REMOVE);
	status_unmap(page);
}

void status_unmap(struct status_page *page)
{
	munmap(page, STATUS_BYTES);
}
