/* filters.c - see filters.h. Runs in the job's process too. No state. */
#include "filters.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int number_after(const char *text, const char *label)
{
	const char *at = strstr(text, label);
	int value = 0;
	if (!at)
		return -ENODATA;
	at += strlen(label);
	while (*at == ' ' || *at == '\t')
		at++;
	for (; *at >= '0' && *at <= '9' && value < 1000000; at++)
		value = value * 10 + (*at - '0');
	return value;
}

static int count_of(const char *status_path, bool living)
{
	/* The line comes behind that of the groups, of which there may be many. */
	char text[16384];
	size_t n = 0;
	int saved = errno, fd = (int)syscall(SYS_openat, AT_FDCWD, status_path, O_RDONLY | O_CLOEXEC, 0);
	int error = fd < 0 ? -errno : 0;
	while (fd >= 0 && n < sizeof text - 1) {
		long r = syscall(SYS_read, fd, text + n, sizeof text - 1 - n);
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	if (fd >= 0)
		syscall(SYS_close, fd);
	errno = saved;
	if (error)
		return error;
	text[n] = 0;
	if (living && (strstr(text, "\nState:\tZ") || strstr(text, "\nState:\tX")))
		return -ESRCH;
	int count = number_after(text, "\nSeccomp_filters:");
	return count < 0 ? number_after(text, "\nSeccomp:") : count;
}

int filters_of(const char *status_path)
{
	return count_of(status_path, false);
}

int filters_of_living(const char *status_path)
{
	return count_of(status_path, true);
}
