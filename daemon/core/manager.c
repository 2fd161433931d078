/* manager.c - see manager.h. Thread: the loop's. No locks. */
#include "manager.h"
#include "proto/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first descriptor that is handed over. */
#define LISTEN_FIRST 3
/* A larger number is not valid; the unit has FileDescriptorStoreMax=. */
#define HANDED_MOST 65536
/* Names of segments that the manager keeps begin so; the capture's number follows. */
#define KEPT_NAME "capture-"

static int say(char *sentence, int error, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence, MANAGER_SENTENCE_BYTES, format, arguments);
	va_end(arguments);
	return error;
}

/* A number of the environment; 0 where it is none. */
static uint64_t number_of(const char *variable)
{
	const char *text = getenv(variable);
	char *end = NULL;
	unsigned long long value = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
	return end && *end == 0 ? value : 0;
}

/* The number in a name that manager_keep() has given; 0 for any other name. */
static uint64_t kept_number(const char *name, size_t n)
{
	char text[64], *end = NULL;
	size_t prefix = strlen(KEPT_NAME);
	if (n >= sizeof text || n <= prefix || strncmp(name, KEPT_NAME, prefix) != 0)
		return 0;
	memcpy(text, name, n);
	text[n] = 0;
	unsigned long long number = strtoull(text + prefix, &end, 10);
	return *end ? 0 : number;
}

/* Tells kept segments from sockets, by their names. Returns how many sockets there are, with the last one's
 * descriptor. */
static uint64_t sort_handed(struct manager *manager, uint64_t count, int *ret_fd)
{
	const char *names = getenv("LISTEN_FDNAMES");
	uint64_t sockets = 0;
	for (uint64_t i = 0; i < count; i++) {
		size_t n = names ? strcspn(names, ":") : 0;
		uint64_t number = n ? kept_number(names, n) : 0;
		int fd = LISTEN_FIRST + (int)i;
		names = names && names[n] ? names + n + 1 : NULL;
		struct manager_kept *grown =
			number ? realloc(manager->kept, (manager->kept_count + 1) * sizeof *grown) : NULL;
		if (grown) {
			manager->kept = grown;
			grown[manager->kept_count++] = (struct manager_kept){number, fd};
			fcntl(fd, F_SETFD, FD_CLOEXEC);
		} else if (number) {
			close(fd);
		} else {
			sockets++;
			*ret_fd = fd;
		}
	}
	return sockets;
}

static int take_socket(struct manager *manager, char *ret_path, char *sentence)
{
	uint64_t count = number_of("LISTEN_FDS");
	int fd = -1, type = 0, accepting = 0;
	if (!count || count > HANDED_MOST || number_of("LISTEN_PID") != (uint64_t)getpid())
		return -ENOENT;
	count = sort_handed(manager, count, &fd);
	if (count == 0)
		return -ENOENT;
	if (count != 1)
		return say(
			sentence, -EINVAL,
			"the service manager has handed over %llu sockets, one is wanted: profd.socket must have one "
			"line ListenSequentialPacket= and no other Listen...=",
			(unsigned long long)count);
	socklen_t n = sizeof type;
	struct sockaddr_un address = {0};
	socklen_t length = sizeof address;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) || getsockname(fd, (struct sockaddr *)&address, &length))
		return say(sentence, -errno,
			   "the descriptor that the service manager has handed over is not a socket: %s",
			   strerror(errno));
	n = sizeof accepting;
	getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepting, &n);
	if (address.sun_family != AF_UNIX || type != SOCK_SEQPACKET || !accepting)
		return say(sentence, -EPROTOTYPE,
			   "the service manager has handed over a socket of another kind: profd.socket must have "
			   "ListenSequentialPacket= with a path, and not Accept=yes");
	/* Nobody would find a socket without a path. */
	if (length <= offsetof(struct sockaddr_un, sun_path) || address.sun_path[0] != '/')
		return say(sentence, -EINVAL,
			   "the service manager has handed over a socket without a path: ListenSequentialPacket= in "
			   "profd.socket must name one, such as " SOCKET_SYSTEM);
	snprintf(ret_path, MANAGER_SENTENCE_BYTES, "%.*s", (int)sizeof address.sun_path, address.sun_path);
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, O_NONBLOCK))
		return say(sentence, -errno, "the socket that was handed over cannot be used: %s", strerror(errno));
	manager->handed = true;
	return fd;
}

static void find_notify(struct manager *manager)
{
	const char *path = getenv("NOTIFY_SOCKET");
	size_t n = path ? strlen(path) : 0;
	if (n < 2 || n >= sizeof manager->notify_address.sun_path || (*path != '/' && *path != '@'))
		return;
	manager->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (manager->notify_fd < 0)
		return;
	manager->notify_address.sun_family = AF_UNIX;
	memcpy(manager->notify_address.sun_path, path, n);
	if (*path == '@')
		manager->notify_address.sun_path[0] = 0;
	manager->notify_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	uint64_t pid = number_of("WATCHDOG_PID");
	if (!pid || pid == (uint64_t)getpid())
		manager->watchdog_ns = number_of("WATCHDOG_USEC") * 1000;
}

int manager_init(struct manager *manager, char ret_path[MANAGER_SENTENCE_BYTES], char *sentence)
{
	static const char *const variables[] = {"LISTEN_FDS",	 "LISTEN_PID",	  "LISTEN_FDNAMES",
						"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"};
	*manager = (struct manager){.notify_fd = -1};
	int fd = take_socket(manager, ret_path, sentence);
	find_notify(manager);
	manager->managed = manager->handed || manager->notify_fd >= 0;
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		unsetenv(variables[i]);
	return fd;
}

void manager_tell(struct manager *manager, const char *format, ...)
{
	char text[1024];
	if (manager->notify_fd < 0)
		return;
	va_list arguments;
	va_start(arguments, format);
	int n = vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (n >= (int)sizeof text)
		n = sizeof text - 1;
	ssize_t sent = sendto(manager->notify_fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT,
			      (const struct sockaddr *)&manager->notify_address, manager->notify_length);
	(void)sent;
}

bool manager_keep(struct manager *manager, uint64_t capture, int fd)
{
	char text[96];
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	/* A memfd cannot be polled; its name tells the next daemon which capture's it is. */
	int n = snprintf(text, sizeof text, "FDSTORE=1\nFDPOLL=0\nFDNAME=" KEPT_NAME "%llu",
			 (unsigned long long)capture);
	struct iovec part = {text, (size_t)n};
	struct msghdr message = {.msg_name = &manager->notify_address,
				 .msg_namelen = manager->notify_length,
				 .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof control.bytes};
	if (manager->notify_fd < 0)
		return false;
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(head), &fd, sizeof fd);
	return sendmsg(manager->notify_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

void manager_unkeep(struct manager *manager, uint64_t capture)
{
	manager_tell(manager, "FDSTOREREMOVE=1\nFDNAME=" KEPT_NAME "%llu", (unsigned long long)capture);
}

int manager_take(struct manager *manager, uint64_t capture)
{
	for (size_t i = 0; i < manager->kept_count; i++)
		if (manager->kept[i].capture == capture && manager->kept[i].fd >= 0) {
			int fd = manager->kept[i].fd;
			manager->kept[i].fd = -1;
			return fd;
		}
	return -1;
}

void manager_release(struct manager *manager)
{
	for (size_t i = 0; i < manager->kept_count; i++)
		if (manager->kept[i].fd >= 0) {
			close(manager->kept[i].fd);
			manager_unkeep(manager, manager->kept[i].capture);
		}
	free(manager->kept);
	manager->kept = NULL;
	manager->kept_count = 0;
}

void manager_deinit(struct manager *manager)
{
	if (manager->notify_fd >= 0)
		close(manager->notify_fd);
	manager->notify_fd = -1;
}
