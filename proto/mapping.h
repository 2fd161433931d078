/* mapping.h - maps memory that is not locked, even if the process has called mlockall(). */
#ifndef PROFD_PROTO_MAPPING_H
#define PROFD_PROTO_MAPPING_H

#include <stddef.h>
#include <sys/types.h>

/* As mmap(), at an address that the kernel chooses; if `to` is not NULL, the mapping is made there and replaces any
 * other. After mlockall(MCL_FUTURE) only one page is locked, for a moment. NULL with errno set: EAGAIN for the limit of
 * locked memory, ENOMEM for that of address space or data. */
void *mapping_new(void *to, size_t bytes, int protection, int flags, int fd, off_t at);

#endif
