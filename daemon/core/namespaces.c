/* namespaces.c - see namespaces.h. */
#include "namespaces.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Pid namespaces nest so deep at most (the kernel's MAX_PID_NS_LEVEL), beside the outermost one. */
#define LEVELS 32

/* What the kernel shows of a uid that a user namespace does not map. */
#define UID_UNMAPPED 65534u

/* linux/nsfs.h's NS_GET_PARENT (4.9) */
#define GET_PARENT _IO(0xb7, 0x2)

static bool uids_partial;

static ssize_t read_text(const char *path, char *to, size_t to_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, to, to_bytes - 1);
	close(fd);
	to[n > 0 ? n : 0] = 0;
	return n;
}

uint64_t namespace_own(char *sentence, size_t sentence_bytes)
{
	char text[64];
	struct stat facts;
	ssize_t n = readlink("/proc/self", text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	if (n <= 0 || stat("/proc/self/ns/pid", &facts)) {
		snprintf(sentence, sentence_bytes, "/proc is not mounted here, and the daemon needs it; mount it");
		return 0;
	}
	if (strtol(text, NULL, 10) != getpid()) {
		snprintf(sentence, sentence_bytes,
			 "/proc is that of another pid namespace, so that no process could be told from another; mount "
			 "this one's (mount -t proc proc /proc), or run the daemon outside of the container");
		return 0;
	}
	/* "         0          0 4294967295" is the whole of all uids. */
	unsigned long inside, outside, count;
	uids_partial = read_text("/proc/self/uid_map", text, sizeof text) > 0 &&
		       (sscanf(text, "%lu %lu %lu", &inside, &outside, &count) != 3 || inside || outside ||
			count != UINT32_MAX);
	return facts.st_ino;
}

bool namespace_knows_uid(uid_t uid)
{
	return !uids_partial || uid != UID_UNMAPPED;
}

/* The descriptor's name in /proc says what it is. Reading it asks no file system, and no file's path begins like that. A
 * call for the file itself could wait for whoever serves its file system. */
static uint64_t inode_of(int fd)
{
	char path[40], text[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	ssize_t n = fd >= 0 ? readlink(path, text, sizeof text - 1) : -1;
	text[n > 0 ? n : 0] = 0;
	return strncmp(text, "pid:[", 5) == 0 ? strtoull(text + 5, NULL, 10) : 0;
}

/* The pids of a process from the daemon's own namespace down to its own. How many, 0 where they cannot be read (/proc is
 * mounted with hidepid, or the process is gone). */
static unsigned read_pids(pid_t pid, pid_t pids[LEVELS + 1])
{
	/* The groups, of which there may be thousands, stand before the pids. */
	static char text[1u << 16];
	char path[32];
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	if (read_text(path, text, sizeof text) <= 0)
		return 0;
	const char *at = strstr(text, "\nNSpid:");
	unsigned n = 0;
	for (at = at ? at + 7 : ""; *at == '\t' && n <= LEVELS; n++) {
		char *end;
		pids[n] = (pid_t)strtol(at, &end, 10);
		at = end;
	}
	return n;
}

/* Inodes of the pid namespaces from that of `fd` outwards to below `own`. How many; -1 where `own` is not around it. */
static int read_chain(int fd, uint64_t own, uint64_t inodes[LEVELS])
{
	int n = 0, at = fd;
	uint64_t inode;
	while ((inode = inode_of(at)) && inode != own && n < LEVELS) {
		inodes[n++] = inode;
		int parent = ioctl(at, GET_PARENT);
		if (at != fd)
			close(at);
		at = parent;
		if (at < 0)
			break;
	}
	if (at >= 0 && at != fd)
		close(at);
	return inode == own && at >= 0 ? n : -1;
}

uint64_t namespace_of_caller(uint64_t own, pid_t pid, int fd)
{
	uint64_t shown = inode_of(fd);
	pid_t pids[LEVELS + 1];
	if (shown)
		return shown;
	/* Pid 0: the process lives in a namespace that the daemon cannot see. */
	return pid > 0 && read_pids(pid, pids) == 1 ? own : NAMESPACE_UNKNOWN;
}

bool namespace_locate(struct identity *who, uint64_t own, int32_t agent_pid, int fd)
{
	pid_t pids[LEVELS + 1];
	uint64_t inodes[LEVELS];
	unsigned known = read_pids(who->pid, pids);
	int depth = read_chain(fd, own, inodes);
	size_t n = 0;
	who->pids[0] = 0;
	who->agent_pid = agent_pid;
	if (known && pids[known - 1] != agent_pid)
		return false;
	/* Without the kernel's list only the innermost pid is known. A pid that does not fit into the text is left out. */
	if (!known && depth > 0)
		n = (size_t)snprintf(who->pids, sizeof who->pids, " %" PRIu64 ":%d ", inodes[0], agent_pid);
	else if (known && depth == (int)known - 1)
		for (int level = 1; level <= depth && n < sizeof who->pids; level++)
			n += (size_t)snprintf(who->pids + n, sizeof who->pids - n, "%s%" PRIu64 ":%d ",
					      level == 1 ? " " : "", inodes[depth - level], pids[level]);
	return true;
}

pid_t namespace_pid(const struct identity *who, uint64_t own, uint64_t viewer)
{
	char key[24];
	if (viewer == own)
		return who->pid;
	int n = snprintf(key, sizeof key, " %" PRIu64 ":", viewer);
	const char *found = viewer == NAMESPACE_UNKNOWN ? NULL : strstr(who->pids, key);
	return found ? (pid_t)strtol(found + n, NULL, 10) : 0;
}
