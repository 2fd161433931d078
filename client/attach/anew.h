/* anew.h - whether a call that waits for input begins anew after a stop, as if nothing had been. */
#ifndef PROFD_CLIENT_ATTACH_ANEW_H
#define PROFD_CLIENT_ATTACH_ANEW_H

#include <stdbool.h>
#include <stdint.h>

/* A thread's read(), accept() or recv() of this descriptor, with these flags. False also where that cannot be known. It looks at the
 * process's descriptor from outside. */
bool waits_anew(int64_t pid, int64_t tid, uint64_t fd, uint64_t flags);

#endif
