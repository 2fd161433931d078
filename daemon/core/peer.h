/* peer.h - who is at the other end of a connection, as the kernel noted it when the peer connected. It does not change
 * when the peer changes its user, or hands its socket to another process. No state. */
#ifndef PROFD_DAEMON_CORE_PEER_H
#define PROFD_DAEMON_CORE_PEER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Was the peer of the group, by its own or a supplementary one? (gid_t)-1 is no group. */
bool peer_of_group(int fd, const struct ucred *peer, gid_t group);
/* A pidfd of the process that connected, never of another one that has its pid now. -ESRCH where that process is gone,
 * another negative errno where there is none to be had (a kernel before 5.3). */
int peer_pidfd(int fd, const struct ucred *peer);
/* Has the process of a pidfd ended? */
bool peer_has_ended(int pidfd);

#endif
