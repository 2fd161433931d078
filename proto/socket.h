/* socket.h - where daemons listen, and packets with descriptors over SOCK_SEQPACKET. Uses nothing that an agent may not
 * use (no stdio, no allocation). */
#ifndef PROFD_PROTO_SOCKET_H
#define PROFD_PROTO_SOCKET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SOCKET_NAME "profd.sock"
#define SOCKET_SYSTEM "/run/profd/" SOCKET_NAME
#define SOCKET_PATH_BYTES 108 /* sun_path */

/* Where a daemon can be, in the order in which agents try: index 0, 1, ... until -ENOENT. If PROFD_SOCKET is set it is
 * the only one. Else the system's, then the user's: $XDG_RUNTIME_DIR/profd, /run/user/<uid>/profd, /tmp/profd-<uid>.
 * Returns 0, -ENOENT past the last, -ENAMETOOLONG for one that does not fit (ret is then empty). */
int socket_candidate(unsigned index, char ret[SOCKET_PATH_BYTES]);

/* May the agent obey this socket? The socket and its folder must belong to one owner (the folder may belong to root),
 * and nobody else may write into the folder. The owner must be root or this process's user. At SOCKET_SYSTEM, whose
 * folder only root can make, and where PROFD_SOCKET names the socket, any owner is accepted. In a user namespace that
 * does not map the owner (65534) the owner counts as root, but never below /tmp. Returns 0, -ENOENT, or -EPERM. */
int socket_trusted(const char *path);

/* Connects a SEQPACKET socket (CLOEXEC). Returns the descriptor or a negative errno; never blocks for long. */
int socket_connect(const char *path);

/* Sends one packet with nfds descriptors (MSG_NOSIGNAL, no blocking). Returns 0 or a negative errno (-EAGAIN: the peer
 * does not read). */
int socket_send(int fd, const void *packet, size_t n, const int *fds, unsigned nfds);

/* Receives one packet. Returns its length, 0 at the end of the connection, or a negative errno (-EMSGSIZE: the packet
 * was longer than `size` and is lost, except for its descriptors). Descriptors are CLOEXEC. *nfds is the room in fds on
 * entry, and the number received on return; further ones are closed. `flags` goes to recvmsg. */
ssize_t socket_receive(int fd, void *packet, size_t size, int *fds, unsigned *nfds, int flags);

#endif
