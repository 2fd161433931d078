/* mapping.c - see mapping.h. A mapping that is not locked stays unlocked when it grows. */
#include "mapping.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

void *mapping_new(void *to, size_t bytes, int protection, int flags, int fd, off_t at)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *first = mmap(NULL, page, protection, flags, fd, at);
	if (first == MAP_FAILED)
		return NULL;
	munlock(first, page);
	void *map = mremap(first, page, bytes, MREMAP_MAYMOVE | (to ? MREMAP_FIXED : 0), to);
	if (map != MAP_FAILED)
		return map;
	int saved = errno;
	munmap(first, page);
	errno = saved;
	return NULL;
}
