/* fuzz_client_target.c - a hostile process as `profd attach` looks at it before it touches anything: what it has mapped, the symbols of
 * that, its Python, its slot. The input is /proc/PID/maps, \xff\xff, and its memory, which repeats itself.
 * wrap: fopen open pread */
#include "client/attach/target.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define READ_MOST (1u << 20) /* more would take too long for a fuzzer */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__real_fopen(const char *path, const char *mode);
int __wrap_open(const char *path, int flags, mode_t mode);
int __real_open(const char *path, int flags, mode_t mode);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t offset);
ssize_t __real_pread(int fd, void *to, size_t bytes, off_t offset);

static const uint8_t *maps, *memory;
static size_t maps_bytes, memory_bytes;
static int memory_fd = -1;

static bool is_of_proc(const char *path, const char *name)
{
	size_t n = strlen(path), end = strlen(name);

	return strncmp(path, "/proc/", 6) == 0 && n > end && strcmp(path + n - end, name) == 0;
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
	if (!is_of_proc(path, "/maps"))
		return __real_fopen(path, mode);
	return maps_bytes ? fmemopen((void *)(uintptr_t)maps, maps_bytes, "r") : NULL;
}

int __wrap_open(const char *path, int flags, mode_t mode)
{
	if (!is_of_proc(path, "/mem"))
		return __real_open(path, flags, mode);
	memory_fd = __real_open("/dev/null", flags, mode);
	return memory_fd;
}

ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t offset)
{
	uint8_t *at = to;

	if (fd != memory_fd)
		return __real_pread(fd, to, bytes, offset);
	if (!memory_bytes || bytes > READ_MOST)
		return -1;
	for (size_t i = 0; i < bytes; i++)
		at[i] = memory[((uint64_t)offset + i) % memory_bytes];
	return (ssize_t)bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const uint8_t *parted = memmem(data, n, "\xff\xff", 2);
	struct target target;
	const char *why;
	char sentence[512] = "";

	maps = data;
	maps_bytes = parted ? (size_t)(parted - data) : n;
	memory = parted ? parted + 2 : data;
	memory_bytes = parted ? n - maps_bytes - 2 : 0;
	int code = target_open(&target, getpid(), sentence, sizeof sentence);
	/* What is refused says why; what is not has all that is called. */
	if (strnlen(sentence, sizeof sentence) == sizeof sentence || !code == !!*sentence)
		abort();
	if (!code && (!target.dlopen || !target.mmap || !target.leave || !*target_way(&target, &why)))
		abort();
	target_close(&target);
	memory_fd = -1;
	return 0;
}
