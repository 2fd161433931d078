/* process_stat.c - see process_stat.h. */
#include "process_stat.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From the kernel's include/linux/sched.h: PF_EXITING is set before a thread's files are closed, PF_SIGNALED before a thread that a
 * signal ends writes a core. */
#define FLAG_EXITING 4u
#define FLAG_SIGNALED 0x400u

struct process_stat {
	char state;
	pid_t parent;
	unsigned long flags;
	long threads;
	uint64_t start_time;
	unsigned long pending; /* signals, of the main thread alone */
};

static bool read_stat(pid_t pid, struct process_stat *ret)
{
	char path[32], text[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	/* The name may hold anything, parentheses too: the fields begin after the last one. */
	char *at = strrchr(text, ')');
	if (!at || at[1] != ' ')
		return false;
	at += 2;
	ret->state = *at;
	for (int field = 3; field <= 31; field++) {
		if (field == 4)
			ret->parent = (pid_t)strtol(at, NULL, 10);
		if (field == 9)
			ret->flags = strtoul(at, NULL, 10);
		if (field == 20)
			ret->threads = strtol(at, NULL, 10);
		if (field == 22)
			ret->start_time = strtoull(at, NULL, 10);
		if (field == 31)
			ret->pending = strtoul(at, NULL, 10);
		at = strchr(at, ' ');
		if (!at)
			return false;
		at++;
	}
	return true;
}

uint64_t process_start_time(pid_t pid)
{
	struct process_stat stat;
	/* The main thread may have ended before the others. */
	if (!read_stat(pid, &stat) || stat.state == 'X' || (stat.state == 'Z' && stat.threads < 2))
		return 0;
	return stat.start_time;
}

pid_t process_parent(pid_t pid)
{
	struct process_stat stat;
	return read_stat(pid, &stat) ? stat.parent : 0;
}

bool process_has_ended(pid_t pid, uint64_t start_time)
{
	struct process_stat stat;
	if (!read_stat(pid, &stat) || stat.start_time != start_time || stat.state == 'X' || stat.state == 'Z')
		return true;
	/* The agent's thread has its own table of descriptors, and may end before the main thread has begun to end.
	 * Then SIGKILL is pending for the main thread: the kernel sends it to each thread of a process that ends. */
	return stat.flags & (FLAG_EXITING | FLAG_SIGNALED) || stat.pending & 1ul << (SIGKILL - 1);
}

bool process_is_stopped(pid_t pid)
{
	struct process_stat stat;
	return read_stat(pid, &stat) && (stat.state == 'T' || stat.state == 't');
}
