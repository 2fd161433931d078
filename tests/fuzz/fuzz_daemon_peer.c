/* fuzz_daemon_peer.c - who has connected, where the kernel knows no pidfd of a peer: its status in /proc, in which the process chooses its
 * name, and its groups. See files.h.
 * wrap: fopen getsockopt syscall close */
#include "daemon/core/peer.h"
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__real_fopen(const char *path, const char *mode);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes);
long __wrap_syscall(long number, ...);
int __wrap_close(int fd);
int __real_close(int fd);

static const uint8_t *groups;
static size_t group_bytes;
static bool playing;

FILE *__wrap_fopen(const char *path, const char *mode)
{
	if (!playing)
		return __real_fopen(path, mode);
	FILE *file = files_stream();
	errno = ENOENT;
	return file;
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
	(void)fd, (void)level;
	if (option == 77) { /* SO_PEERPIDFD */
		errno = ENOPROTOOPT;
		return -1;
	}
	bool fits = group_bytes <= *bytes;
	*bytes = (socklen_t)group_bytes;
	if (fits)
		memcpy(value, groups, group_bytes);
	errno = ERANGE;
	return fits ? 0 : -1;
}

long __wrap_syscall(long number, ...)
{
	(void)number;
	errno = EPERM; /* pidfd_open, which a filter of a container refuses */
	return -1;
}

int __wrap_close(int fd)
{
	return playing ? 0 : __real_close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const struct ucred peer = {.pid = 4242, .uid = 1000, .gid = 1000};
	files_begin(data, n);
	playing = true;
	int pidfd = peer_pidfd(0, &peer);
	playing = false;
	/* There is never a pidfd here. The process is the peer's only if its status says so. */
	if (pidfd >= 0 || (pidfd != -ESRCH && pidfd != -EPERM))
		abort();
	if (pidfd == -EPERM && !memmem(data, n, "1000", 4))
		abort();
	group_bytes = files_next(&groups) & ~(sizeof(gid_t) - 1);
	bool member = peer_of_group(0, &peer, 7), expected = false;
	for (size_t i = 0; i < group_bytes / sizeof(gid_t); i++) {
		gid_t one;
		memcpy(&one, groups + i * sizeof one, sizeof one);
		expected |= one == 7;
	}
	if (member != expected)
		abort();
	return 0;
}
