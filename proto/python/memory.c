/* memory.c - see memory.h. */
#include "memory.h"

bool python_read(struct python_memory *memory, uint64_t address, void *to, size_t bytes)
{
	/* An address below the first page's end is a member of a structure at NULL. */
	if (!memory->reads_left || address < 4096 || address + bytes < address)
		return false;
	memory->reads_left--;
	return memory->read(memory->context, address, to, bytes);
}

uint64_t python_word(struct python_memory *memory, uint64_t address)
{
	uint64_t value;
	return python_read(memory, address, &value, sizeof value) ? value : 0;
}
