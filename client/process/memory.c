/* memory.c - see memory.h. */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static bool read_all(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct process_memory *process = context;

	if (address > INT64_MAX - bytes)
		return false;
	return pread(process->fd, to, bytes, (off_t)address) == (ssize_t)bytes;
}

int process_memory_open(struct process_memory *ret, int64_t pid, uint64_t reads, int mode)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%lld/mem", (long long)pid);
	ret->pid = pid;
	ret->memory = (struct python_memory){read_all, ret, reads};
	ret->fd = open(path, mode | O_CLOEXEC);
	return ret->fd < 0 ? -errno : 0;
}

bool process_memory_write(const struct process_memory *memory, uint64_t address, const void *from, size_t bytes)
{
	return address <= INT64_MAX - bytes && pwrite(memory->fd, from, bytes, (off_t)address) == (ssize_t)bytes;
}

void process_memory_close(struct process_memory *memory)
{
	if (memory->fd >= 0)
		close(memory->fd);
	memory->fd = -1;
}

/* yama's kernel.yama.ptrace_scope; 0 where there is no yama. */
static int ptrace_scope(void)
{
	FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%d", &scope) != 1)
		scope = 0;
	fclose(file);
	return scope;
}

void process_refusal(int64_t pid, int error, char *sentence, size_t bytes)
{
	char path[64];
	struct stat facts;
	int scope = ptrace_scope();

	snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
	if (error == ENOENT || error == ESRCH || stat(path, &facts)) {
		snprintf(sentence, bytes, "there is no process %lld", (long long)pid);
		return;
	}
	if (error != EACCES && error != EPERM) {
		snprintf(sentence, bytes, "process %lld cannot be looked into: %s", (long long)pid, strerror(error));
		return;
	}
	snprintf(path, sizeof path, "/proc/%lld", (long long)pid);
	if (geteuid() && stat(path, &facts) == 0 && facts.st_uid != geteuid())
		snprintf(
			sentence, bytes,
			"process %lld is another user's, or has taken rights that yours has not (setuid, capabilities): "
			"ask as its user, or as root",
			(long long)pid);
	else if (geteuid() && scope >= 1 && scope <= 2)
		snprintf(sentence, bytes,
			 "this machine lets nobody look into other processes (kernel.yama.ptrace_scope is %d): ask as "
			 "root, or allow it with `sysctl kernel.yama.ptrace_scope=0`",
			 scope);
	else if (scope == 3)
		snprintf(
			sentence, bytes,
			"this machine lets nobody look into other processes, root neither (kernel.yama.ptrace_scope is "
			"3), until it is started again");
	else
		snprintf(
			sentence, bytes,
			"the kernel does not let you look into process %lld: it may live in another user namespace, or "
			"a container without the right (CAP_SYS_PTRACE) asks",
			(long long)pid);
}
