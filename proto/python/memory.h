/* memory.h - reads the memory of another process, or the reader's own. Each read is bounded, counted, and may fail. */
#ifndef PROFD_PROTO_PYTHON_MEMORY_H
#define PROFD_PROTO_PYTHON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct python_memory {
	/* Copies all of the bytes, or returns false. An address may be anything. */
	bool (*read)(void *context, uint64_t address, void *to, size_t bytes);
	void *context;
	uint64_t reads_left; /* a hostile process cannot keep its reader for ever */
};

/* Also false where no reads are left. */
bool python_read(struct python_memory *memory, uint64_t address, void *to, size_t bytes);
/* The 8 bytes at an address; 0 where they cannot be read. */
uint64_t python_word(struct python_memory *memory, uint64_t address);

#endif
