/* peer.c - see peer.h. Thread: the loop's. */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Younger than some headers; the same on every architecture that profd runs on. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59 /* Linux 4.13 */
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* Supplementary groups of one process: the kernel's NGROUPS_MAX. */
#define GROUPS_MAX 65536u

bool peer_of_group(int fd, const struct ucred *peer, gid_t group)
{
	if (group == (gid_t)-1)
		return false;
	if (peer->gid == group)
		return true;
	gid_t few[64], *groups = few;
	socklen_t n = sizeof few;
	int error = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &n);
	/* There are more: the kernel has said how many. */
	if (error && errno == ERANGE && n <= GROUPS_MAX * sizeof *groups) {
		groups = malloc(n);
		error = groups ? getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &n) : -1;
	}
	bool member = false;
	for (size_t i = 0; !error && i < n / sizeof *groups; i++)
		member |= groups[i] == group;
	if (groups != few)
		free(groups);
	return member;
}

bool peer_has_ended(int pidfd)
{
	struct pollfd look = {.fd = pidfd, .events = POLLIN};
	return poll(&look, 1, 0) != 0;
}

/* Is one of the process's uids the peer's? It is not where the pid now belongs to another user's process. */
static bool is_of(pid_t pid, uid_t uid)
{
	char path[40], line[256];
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	FILE *file = fopen(path, "re");
	/* Where /proc is hidden from the daemon (hidepid) it cannot look. */
	bool of = !file && errno != ENOENT;
	unsigned long ids[4];
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "Uid: %lu %lu %lu %lu", &ids[0], &ids[1], &ids[2], &ids[3]) == 4)
			for (int i = 0; i < 4; i++)
				of |= ids[i] == uid;
	if (file)
		fclose(file);
	return of;
}

int peer_pidfd(int fd, const struct ucred *peer)
{
	int pidfd;
	socklen_t n = sizeof pidfd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &n) == 0) {
		if (!peer_has_ended(pidfd))
			return pidfd;
		close(pidfd);
		return -ESRCH;
	}
	if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
		return -errno;
	if (errno != ENOPROTOOPT)
		return -ESRCH;
	/* An older kernel knows only the pid. The pidfd is opened before the process is looked at, so both are the same
	 * process. */
	pidfd = (int)syscall(SYS_pidfd_open, peer->pid, 0);
	int error = pidfd < 0 ? -errno : 0;
	if (error == -ESRCH || !is_of(peer->pid, peer->uid) || (!error && peer_has_ended(pidfd))) {
		if (!error)
			close(pidfd);
		return -ESRCH;
	}
	return error ? error : pidfd;
}
