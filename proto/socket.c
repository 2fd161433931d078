/* socket.c - where daemons listen, and packets with descriptors. Runs in the job's process too: no stdio, no
 * allocation. No state. */
#include "socket.h"
#include "limits.h"
#include "small_file.h"
#include "system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The uid that stat gives for an owner that the user namespace does not map (/proc/sys/kernel/overflowuid). */
#define UID_UNMAPPED 65534u

struct path {
	char *text;
	size_t length;
	int overflow;
};

static void append(struct path *path, const char *text)
{
	size_t n = strlen(text);
	if (path->overflow || n >= SOCKET_PATH_BYTES - path->length) {
		path->overflow = 1;
		return;
	}
	memcpy(path->text + path->length, text, n + 1);
	path->length += n;
}

static void append_number(struct path *path, unsigned long number)
{
	char digits[24];
	size_t at = sizeof digits - 1;
	digits[at] = 0;
	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	append(path, digits + at);
}

/* The user's PROFD_SOCKET, NULL where there is none. Not in a program that runs with more rights than its caller. */
static const char *chosen_socket(void)
{
	const char *chosen = secure_getenv("PROFD_SOCKET");
	return chosen && chosen[0] ? chosen : NULL;
}

int socket_candidate(unsigned index, char ret[SOCKET_PATH_BYTES])
{
	struct path path = {.text = ret};
	ret[0] = 0;
	const char *chosen = chosen_socket();
	if (chosen) {
		if (index > 0)
			return -ENOENT;
		append(&path, chosen);
	} else if (index == 0) {
		append(&path, SOCKET_SYSTEM);
	} else {
		const char *folder = secure_getenv("XDG_RUNTIME_DIR");
		if (!folder || folder[0] != '/')
			index++;
		switch (index) {
		case 1:
			append(&path, folder);
			append(&path, "/profd/" SOCKET_NAME);
			break;
		case 2:
			append(&path, "/run/user/");
			append_number(&path, geteuid());
			append(&path, "/profd/" SOCKET_NAME);
			break;
		case 3:
			append(&path, "/tmp/profd-");
			append_number(&path, geteuid());
			append(&path, "/" SOCKET_NAME);
			break;
		default:
			return -ENOENT;
		}
	}
	if (path.overflow) {
		ret[0] = 0;
		return -ENAMETOOLONG;
	}
	return 0;
}

/* Which users this process's user namespace maps. */
struct uid_map {
	int unmapped; /* UID_UNMAPPED is a mapped user */
	int all;      /* all users are mapped: it is the first namespace, or like it */
};

/* Reads lines "inside outside count" of /proc/self/uid_map. If it cannot be read, the stricter answer holds. */
static struct uid_map read_uid_map(void)
{
	struct uid_map map = {1, 0};
	char text[4096];
	long n = small_file_read("/proc/self/uid_map", text, sizeof text);
	/* An empty file maps nobody. */
	if (n < 0)
		return map;
	map.unmapped = 0;
	uint64_t field[3] = {0};
	unsigned column = 0;
	int in_number = 0;
	for (long i = 0; i < n; i++) {
		char c = text[i];
		if (c >= '0' && c <= '9') {
			if (column < 3)
				field[column] = field[column] * 10 + (uint64_t)(c - '0');
			in_number = 1;
			continue;
		}
		if (in_number)
			column++;
		in_number = 0;
		if (c == '\n') {
			if (column >= 3) {
				map.unmapped |= UID_UNMAPPED >= field[0] && UID_UNMAPPED - field[0] < field[2];
				map.all |= field[0] == 0 && field[2] == UINT32_MAX;
			}
			memset(field, 0, sizeof field);
			column = 0;
		}
	}
	return map;
}

int socket_trusted(const char *path)
{
	char folder[SOCKET_PATH_BYTES];
	size_t n = strlen(path);
	if (n == 0 || n >= sizeof folder)
		return -ENOENT;
	memcpy(folder, path, n + 1);
	char *slash = strrchr(folder, '/');
	if (!slash)
		memcpy(folder, ".", 2);
	else
		slash[slash == folder] = 0;

	struct stat in, socket;
	if (system_stat(folder, &in) < 0 || system_lstat(path, &socket) < 0)
		return errno == ENOENT || errno == ENOTDIR ? -ENOENT : -EPERM;
	if (!S_ISDIR(in.st_mode) || !S_ISSOCK(socket.st_mode))
		return -EPERM;
	if (in.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;

	/* In /tmp anybody can make folders, and those of all unmapped users look alike: there is no exception for
	 * /tmp. */
	struct uid_map map = read_uid_map();
	int unmapped_is_root = strncmp(path, "/tmp/", 5) != 0 && !map.unmapped;
	uid_t folder_owner = in.st_uid, owner = socket.st_uid, own = geteuid();
	/* A process whose own user is not mapped looks like all unmapped users. */
	int own_is_known = own != UID_UNMAPPED || map.all;
	if (unmapped_is_root && folder_owner == UID_UNMAPPED)
		folder_owner = 0;
	if (unmapped_is_root && owner == UID_UNMAPPED)
		owner = 0;
	if (folder_owner != owner && folder_owner != 0)
		return -EPERM;
	if (owner == 0 || (owner == own && own_is_known))
		return 0;
	/* Another user's daemon is trusted if this user has named it, or root has put it into /run. */
	const char *chosen = chosen_socket();
	if ((chosen && strcmp(path, chosen) == 0) || strcmp(path, SOCKET_SYSTEM) == 0)
		return 0;
	return -EPERM;
}

int socket_connect(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t n = strlen(path);
	if (n == 0)
		return -ENOENT;
	if (n >= sizeof address.sun_path)
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, n);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* The socket does not block: with a full backlog connect() fails with -EAGAIN at once. */
	if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0 || fcntl(fd, F_SETFL, 0) < 0) {
		int error = errno;
		close(fd);
		return -error;
	}
	return fd;
}

/* Room for the descriptors of one packet; the kernel closes those that do not fit. */
union control {
	struct cmsghdr align;
	unsigned char bytes[CMSG_SPACE(LIMIT_PACKET_FDS * sizeof(int))];
};

int socket_send(int fd, const void *packet, size_t n, const int *fds, unsigned nfds)
{
	if (n > LIMIT_PACKET_BYTES)
		return -EMSGSIZE;
	if (n == 0 || nfds > LIMIT_PACKET_FDS)
		return -EINVAL;
	/* sendmsg does not write there. */
	struct iovec part = {.iov_base = (void *)(uintptr_t)packet, .iov_len = n};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	union control control;
	if (nfds > 0) {
		memset(&control, 0, sizeof control);
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(head), fds, nfds * sizeof(int));
	}
	while (sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

/* Takes the descriptors out of a received message: up to `room` into fds; the others are closed. Returns how many it
 * took. It walks by hand, because glibc's CMSG_NXTHDR may call a function that musl does not have. */
static unsigned take_descriptors(const struct msghdr *message, int *fds, unsigned room)
{
	const unsigned char *bytes = message->msg_control;
	size_t n = message->msg_controllen, at = 0;
	unsigned taken = 0;
	while (n - at >= sizeof(struct cmsghdr)) {
		struct cmsghdr head;
		memcpy(&head, bytes + at, sizeof head);
		if (head.cmsg_len < CMSG_LEN(0) || head.cmsg_len > n - at)
			break;
		if (head.cmsg_level == SOL_SOCKET && head.cmsg_type == SCM_RIGHTS) {
			size_t count = (head.cmsg_len - CMSG_LEN(0)) / sizeof(int);
			for (size_t i = 0; i < count; i++) {
				int received;
				memcpy(&received, bytes + at + CMSG_LEN(0) + i * sizeof received, sizeof received);
				if (taken < room)
					fds[taken++] = received;
				else
					close(received);
			}
		}
		if (CMSG_ALIGN(head.cmsg_len) > n - at)
			break;
		at += CMSG_ALIGN(head.cmsg_len);
	}
	return taken;
}

ssize_t socket_receive(int fd, void *packet, size_t size, int *fds, unsigned *nfds, int flags)
{
	struct iovec part = {.iov_base = packet, .iov_len = size};
	union control control;
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof control,
	};
	unsigned room = nfds ? *nfds : 0;
	if (nfds)
		*nfds = 0;
	/* Descriptors that nobody wants are not even received: closing them may take long. */
	if (room == 0) {
		message.msg_control = NULL;
		message.msg_controllen = 0;
	}
	ssize_t n = recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC);
	/* The peer has closed without reading all that was sent to it. The kernel reports that first, and once; what the peer
	 * has sent before can still be read. */
	if (n < 0 && errno == ECONNRESET)
		n = recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return -errno;
	unsigned taken = take_descriptors(&message, fds, room);
	if (nfds)
		*nfds = taken;
	return message.msg_flags & MSG_TRUNC ? -EMSGSIZE : n;
}
