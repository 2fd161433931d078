/* container.c - see container.h: a process in a container, as far as it can be seen from outside. Reads
 * /proc/PID/{ns,environ,root,exe}; touches nothing there. */
#include "container.h"

#include "check.h"
#include "root.h"

#include "client/ui/text.h"

#include "proto/socket.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool elsewhere(int64_t pid, const char *kind)
{
	char path[64];
	struct stat own, other;

	snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
	if (stat(path, &own) < 0)
		return false;
	snprintf(path, sizeof path, "/proc/%lld/ns/%s", (long long)pid, kind);
	return stat(path, &other) == 0 && own.st_ino != other.st_ino;
}

/* Value of a variable that the process was started with; "" where there is none. */
static void variable(int64_t pid, const char *name, char *to, size_t bytes)
{
	char path[64], *entry = NULL;
	size_t room = 0, n = strlen(name);
	FILE *file;

	to[0] = 0;
	snprintf(path, sizeof path, "/proc/%lld/environ", (long long)pid);
	file = fopen(path, "re");
	if (!file)
		return;
	while (getdelim(&entry, &room, 0, file) > 0)
		if (strncmp(entry, name, n) == 0 && entry[n] == '=')
			snprintf(to, bytes, "%s", entry + n + 1);
	free(entry);
	fclose(file);
}

/* The first entry of LD_PRELOAD that is the agent's, by its name. */
static bool preloaded(const char *list, char *to, size_t bytes)
{
	while (*list) {
		size_t n = strcspn(list, " :");

		snprintf(to, bytes, "%.*s", (int)n, list);
		if (strstr(to, "libprofd_agent"))
			return true;
		list += n;
		list += strspn(list, " :");
	}
	return false;
}

void inspect_container(int64_t pid, struct table *checks)
{
	char list[PATH_MAX], agent[PATH_MAX], socket[SOCKET_PATH_BYTES], text[2 * PATH_MAX + 256];
	int there;

	if (!elsewhere(pid, "pid") && !elsewhere(pid, "mnt"))
		return;
	variable(pid, "PROFD_SOCKET", socket, sizeof socket);
	if (!socket[0])
		snprintf(socket, sizeof socket, SOCKET_SYSTEM);
	there = inspect_kind(pid, socket, S_IFSOCK);
	if (there < 0)
		snprintf(
			text, sizeof text,
			"the process lives in a container, and whether the daemon's socket is there cannot be seen: %s",
			strerror(-there));
	else if (there)
		snprintf(text, sizeof text, "the process lives in a container, and the daemon's socket is there: %s",
			 socket);
	else
		snprintf(text, sizeof text,
			 "the process lives in a container in which there is no socket %s: mount the folder of the "
			 "daemon's socket into it (docs/containers.md)",
			 socket);
	doctor_check(checks, "container", there < 0 ? "warning" : there ? "ok" : "failed", text);
	variable(pid, "LD_PRELOAD", list, sizeof list);
	if (preloaded(list, agent, sizeof agent) && agent[0] == '/' && inspect_kind(pid, agent, S_IFREG) == 0) {
		snprintf(text, sizeof text,
			 "LD_PRELOAD names %s, which is not in the container: mount the agent's folder into it, at "
			 "the same place",
			 agent);
		doctor_check(checks, "preload", "failed", text);
	}
}

/* The clock since boot is compared: by it the kernel tells when a process started, and the daemon identifies a process
 * by that time. */
bool inspect_clocks(int64_t pid)
{
	char path[64], clock[32];
	long long seconds, nanoseconds;
	bool moved = false;
	FILE *file;

	if (!elsewhere(pid, "time"))
		return false;
	snprintf(path, sizeof path, "/proc/%lld/timens_offsets", (long long)pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (fscanf(file, "%31s %lld %lld", clock, &seconds, &nanoseconds) == 3)
		moved |= strcmp(clock, "boottime") == 0 && (seconds || nanoseconds);
	fclose(file);
	return moved;
}

bool inspect_class(int64_t pid, struct table *checks)
{
	char path[64];
	unsigned char head[5] = {0};
	bool small;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%lld/exe", (long long)pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	/* EI_CLASS of the ELF header: 1 is 32 bits. */
	small = fread(head, 1, sizeof head, file) == sizeof head && memcmp(head, "\177ELF\001", 5) == 0;
	fclose(file);
	if (small)
		doctor_check(
			checks, "linking", "failed",
			"the program is a 32-bit one, the agent a 64-bit one: the loader says so, and the program runs without the agent");
	return small;
}
