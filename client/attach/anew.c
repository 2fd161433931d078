/* anew.c - see anew.h. */
#include "anew.h"

#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
/* Of the kernel's Documentation/admin-guide/devices.txt. */
#define TTY 4
#define TTY_OTHER 5
#define PTS_FIRST 136
#define PTS_LAST 143

static bool number_is(int fd, int option, int wanted)
{
	int value;
	socklen_t bytes = sizeof value;

	return getsockopt(fd, SOL_SOCKET, option, &value, &bytes) == 0 && bytes == sizeof value && value == wanted;
}

/* One that waits for more than one byte gives what it has when it is interrupted: MSG_WAITALL, SO_RCVLOWAT. */
static bool socket_waits_anew(int fd)
{
	struct timeval timeout;
	socklen_t bytes = sizeof timeout;

	return getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, &bytes) == 0 && !timeout.tv_sec && !timeout.tv_usec &&
	       number_is(fd, SO_RCVLOWAT, 1) &&
	       (number_is(fd, SO_DOMAIN, AF_UNIX) || number_is(fd, SO_DOMAIN, AF_INET) ||
		number_is(fd, SO_DOMAIN, AF_INET6));
}

/* Linux 5.6 gives a copy of another process's descriptor to who may trace it. */
static int copy_of(int64_t pid, uint64_t fd)
{
	int process = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	int copy = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, (int)fd, 0);

	if (process >= 0)
		close(process);
	return copy;
}

static bool is_terminal(dev_t device)
{
	return major(device) == TTY || major(device) == TTY_OTHER ||
	       (major(device) >= PTS_FIRST && major(device) <= PTS_LAST);
}

bool waits_anew(int64_t pid, int64_t tid, uint64_t fd, uint64_t flags)
{
	struct stat facts, copied;
	char path[96];
	bool anew = false;
	int copy;

	snprintf(path, sizeof path, "/proc/%lld/task/%lld/fd/%u", (long long)pid, (long long)tid, (unsigned)fd);
	if ((unsigned)fd > INT_MAX || stat(path, &facts) || flags & MSG_WAITALL)
		return false;
	if (S_ISFIFO(facts.st_mode) || (S_ISCHR(facts.st_mode) && is_terminal(facts.st_rdev)))
		return true;
	if (!S_ISSOCK(facts.st_mode))
		return false;
	copy = copy_of(pid, (unsigned)fd);
	/* The thread's own table of descriptors may be another one than the process's. */
	if (copy >= 0 && fstat(copy, &copied) == 0 && copied.st_ino == facts.st_ino && copied.st_dev == facts.st_dev)
		anew = socket_waits_anew(copy);
	if (copy >= 0)
		close(copy);
	return anew;
}
