/* lock.c - see lock.h. The folder is the one in which a user's own daemon would listen: $XDG_RUNTIME_DIR/profd,
 * /run/user/UID/profd, else /tmp/profd-UID. */
#include "lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_ours(const char *path)
{
	struct stat found;

	return lstat(path, &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
	       !(found.st_mode & (S_IWGRP | S_IWOTH));
}

/* A folder that is there, or is made, and that nobody else can write. 0 or a negative errno. */
static int make_folder(char path[PATH_MAX])
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	int error;

	for (int i = runtime && runtime[0] == '/' ? 0 : 1; i < 3; i++) {
		int n = i == 0	 ? snprintf(path, PATH_MAX, "%s", runtime)
			: i == 1 ? snprintf(path, PATH_MAX, "/run/user/%u", (unsigned)geteuid())
				 : snprintf(path, PATH_MAX, "/tmp/profd-%u", (unsigned)geteuid());

		if (n < 0 || n + 80 >= PATH_MAX)
			continue;
		if (i < 2 && !is_ours(path))
			continue;
		if (i < 2)
			snprintf(path + n, (size_t)(PATH_MAX - n), "/profd");
		error = mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
		if (!error && is_ours(path))
			return 0;
	}
	return -EPERM;
}

/* FNV-1a: a name of any length and any bytes becomes a file's. */
static uint64_t hash(const char *text)
{
	uint64_t value = 14695981039346656037ull;

	for (; *text; text++)
		value = (value ^ (unsigned char)*text) * 1099511628211ull;
	return value;
}

int lock_take(struct lock *ret, const char *name)
{
	char text[24];
	size_t n;
	ssize_t got;
	int error;

	*ret = (struct lock){.fd = -1};
	error = make_folder(ret->path);
	if (error)
		return error;
	n = strlen(ret->path);
	snprintf(ret->path + n, sizeof ret->path - n, "/snapshot-%016llx.lock", (unsigned long long)hash(name));
	ret->fd = open(ret->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (ret->fd < 0)
		return -errno;
	if (flock(ret->fd, LOCK_EX | LOCK_NB) < 0) {
		error = -errno;
		got = pread(ret->fd, text, sizeof text - 1, 0);
		text[got > 0 ? got : 0] = 0;
		ret->holder = strtol(text, NULL, 10);
		if (ret->holder <= 0 || ret->holder > INT_MAX)
			ret->holder = 0;
		close(ret->fd);
		ret->fd = -1;
		return error;
	}
	/* The pid is for the sentence of the next run. The file stays: if it were removed, two runs could make it anew
	 * and both hold it. */
	snprintf(text, sizeof text, "%ld\n", (long)getpid());
	if (ftruncate(ret->fd, 0) < 0 || pwrite(ret->fd, text, strlen(text), 0) < 0)
		ret->holder = 0;
	return 0;
}

void lock_release(struct lock *lock)
{
	if (lock->fd >= 0)
		close(lock->fd);
	lock->fd = -1;
}
