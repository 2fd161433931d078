/* descriptors.h - descriptors that peers send. An honest peer sends only a pid namespace or a segment. A hostile one may
 * send a file of a file system that it serves itself (FUSE): any call for such a file, even close(), waits for as long as
 * that peer likes. Loop's thread. */
#ifndef PROFD_DAEMON_CORE_DESCRIPTORS_H
#define PROFD_DAEMON_CORE_DESCRIPTORS_H

struct conn;

/* Takes away descriptors that are neither memory nor the kernel's own: -1 stands in their place, and a thread of a pool
 * closes them. */
void descriptors_sift(struct conn *conn, int *fds, unsigned count);

#endif
