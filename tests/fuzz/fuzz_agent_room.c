/* fuzz_agent_room.c - memory cgroups as the kernel, or a container's own file system, shows them to the agent: files by files the
 * input, with \xff between.
 * wrap: keeper_read_file */
#include "agent/core/room.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t __wrap_keeper_read_file(const char *path, char *to, size_t bytes);

static const uint8_t *bytes_of;
static size_t left;
static unsigned opened;

size_t __wrap_keeper_read_file(const char *path, char *to, size_t bytes)
{
	(void)path;
	/* A path is as long as its buffer at most, and each level of it asks for four files. */
	if (++opened > 8192)
		abort();
	const uint8_t *end = left ? memchr(bytes_of, 0xff, left) : NULL;
	size_t n = end ? (size_t)(end - bytes_of) : left, kept = n < bytes - 1 ? n : bytes - 1;
	if (kept)
		memcpy(to, bytes_of, kept);
	to[kept] = 0;
	n += n < left;
	bytes_of += n;
	left -= n;
	return kept;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	bytes_of = data;
	left = n;
	opened = 0;
	room_memory();
	room_space();
	return 0;
}
