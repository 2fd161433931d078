/* sealed.h - memory that two processes share: a memfd with seals, so that neither can shrink it while the other uses it. */
#ifndef PROFD_PROTO_SEALED_H
#define PROFD_PROTO_SEALED_H

#include <stdint.h>

/* Makes one of `bytes` bytes (holes, which use no memory yet), sealed against shrinking, growing and further seals.
 * /proc/PID/maps shows `name`. Returns the descriptor (CLOEXEC) or a negative errno. */
int sealed_create(const char *name, uint64_t bytes);

/* Checks that a descriptor from a peer is a memfd that can neither shrink nor grow. 0, -EPROTO where it is not, or another
 * negative errno. */
int sealed_check(int fd);

#endif
