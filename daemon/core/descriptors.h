/* descriptors.h - descriptors that peers send. Nobody honest sends any but a pid namespace and a segment; a file of a file system
 * that a user serves (FUSE) makes whoever asks it anything, and even who closes it, wait for as long as that user likes.
 * Loop's thread. */
#ifndef PROFD_DAEMON_CORE_DESCRIPTORS_H
#define PROFD_DAEMON_CORE_DESCRIPTORS_H

#include <stdbool.h>

struct conn;

/* Takes those away that are neither memory nor anything of the kernel's own: in their place stands -1, and they are closed where
 * nobody waits for it. */
void descriptors_sift(struct conn *conn, int *fds, unsigned count);

#endif
