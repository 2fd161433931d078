/* python_objects.c - loaded by tests/e2e/python_objects.py: what proto/python reads of the objects of the Python that has loaded it, by copies of
 * its own memory, while other threads go on. */
#include "proto/python/dict.h"
#include "proto/python/proof.h"

#include <sys/uio.h>
#include <unistd.h>

#define READS 1000000
#define OWN __attribute__((visibility("default")))

static struct python python;

static bool read_own(void *context, uint64_t address, void *to, size_t bytes)
{
	struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)address, bytes};
	(void)context;
	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

OWN int objects_open(uint64_t runtime, unsigned minor);
OWN const char *objects_disproved(void);
OWN uint64_t objects_attribute(uint64_t object, const char *name);
OWN uint64_t objects_item(uint64_t dict, const char *key);
OWN uint64_t objects_number(uint64_t object);

int objects_open(uint64_t runtime, unsigned minor)
{
	const struct python_memory memory = {.read = read_own, .reads_left = READS};
	return (int)python_open(&python, &memory, runtime, minor);
}

const char *objects_disproved(void)
{
	return python_disproved(&python);
}

uint64_t objects_attribute(uint64_t object, const char *name)
{
	struct python mine = python;
	struct python_items items;
	mine.memory.reads_left = READS;
	return python_attributes_open(&mine, object, &items) ? python_items_find(&mine, &items, name, NULL) : 0;
}

uint64_t objects_item(uint64_t dict, const char *key)
{
	struct python mine = python;
	mine.memory.reads_left = READS;
	return python_dict_find(&mine, dict, key, NULL);
}

/* UINT64_MAX: it is none that is read. */
uint64_t objects_number(uint64_t object)
{
	struct python mine = python;
	uint64_t ret;
	mine.memory.reads_left = READS;
	return python_number(&mine, object, &ret) ? ret : UINT64_MAX;
}
