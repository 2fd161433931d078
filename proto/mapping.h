/* mapping.h - memory that is mapped and not locked, whatever the process has asked for (mlockall). */
#ifndef PROFD_PROTO_MAPPING_H
#define PROFD_PROTO_MAPPING_H

#include <stddef.h>
#include <sys/types.h>

/* As mmap(), at an address of the kernel's choice; or, where `to` is not NULL, over what is mapped there. In a process that has
 * all that it maps locked (mlockall with MCL_FUTURE) neither memory nor its limit of locked memory is spent on more than a page,
 * and that for a moment. NULL with errno set: EAGAIN is that limit, ENOMEM that of address space or of data. */
void *mapping_new(void *to, size_t bytes, int protection, int flags, int fd, off_t at);

#endif
