/* python_modes.c - loaded by tests/e2e/python_modes.py: which modules agent/stacks/mode.c finds in the frames of the thread that asks, by copies of the
 * process's own memory. */
#include "agent/stacks/mode.h"
#include "proto/python/code.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define READS 1000000
#define FRAMES 64
#define OWN __attribute__((visibility("default")))

static struct mode_reader reader;

static bool read_own(void *context, uint64_t address, void *to, size_t bytes)
{
	struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)address, bytes};
	(void)context;
	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

OWN int modes_open(uint64_t runtime, unsigned minor, uint64_t yes, uint64_t no, uint64_t cell);
OWN int modes_of(uint64_t state, const char *function, uint64_t ret[static 2 * MODES_MOST]);

int modes_open(uint64_t runtime, unsigned minor, uint64_t yes, uint64_t no, uint64_t cell)
{
	const struct python_memory memory = {.read = read_own, .reads_left = READS};
	reader.yes = yes;
	reader.no = no;
	reader.cell = cell;
	return (int)python_open(&reader.python, &memory, runtime, minor);
}

/* Of the innermost frame of this function: objects and modes by turns. Returns how many, -1: there is no such frame. */
int modes_of(uint64_t state, const char *function, uint64_t ret[static 2 * MODES_MOST])
{
	static struct python_frame frames[FRAMES], scratch[FRAMES];
	struct modes found = {0};
	size_t count;
	unsigned torn;
	bool more;
	reader.python.memory.reads_left = READS;
	if (python_walk(&reader.python, state, frames, scratch, FRAMES, &count, &more, &torn) == WALK_TORN)
		return -1;
	for (size_t i = 0; i < count; i++) {
		struct python_code code;
		const char *dot;
		reader.python.memory.reads_left = READS;
		if (!python_describe(&reader.python, frames[i].code, &code))
			continue;
		dot = strrchr(code.name, '.');
		if (strcmp(dot ? dot + 1 : code.name, function) != 0)
			continue;
		modes_of_frame(&reader, frames[i].address, frames[i].code, 1024, &found);
		for (uint32_t k = 0; k < found.count; k++) {
			ret[2 * k] = found.items[k].object;
			ret[2 * k + 1] = found.items[k].training;
		}
		return (int)found.count;
	}
	return -1;
}
