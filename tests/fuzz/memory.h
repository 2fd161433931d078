/* memory.h - the memory of a process, as the readers of proto/python see it: a fuzz target's input, which repeats itself. */
#ifndef PROFD_FUZZ_MEMORY_H
#define PROFD_FUZZ_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input {
	const uint8_t *bytes;
	size_t size;
};

/* Every address leads somewhere into the input, but those whose highest bit is set: these cannot be read. context: a struct input. */
static inline bool read_input(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct input *input = context;
	uint8_t *at = to;
	if (address >> 63)
		return false;
	for (size_t i = 0; i < bytes; i++)
		at[i] = input->bytes[(address + i) % input->size];
	return true;
}

#endif
