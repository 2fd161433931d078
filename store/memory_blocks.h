/* memory_blocks.h - the records of blocks that allocators gave out and took back, in the order of their times. No
 * locks. */
#ifndef PROFD_STORE_MEMORY_BLOCKS_H
#define PROFD_STORE_MEMORY_BLOCKS_H

#include "file.h"

struct memory_block {
	int64_t time, parent; /* parent: an operator's or a range's id; ROWS_NULL: none */
	int64_t bytes;	      /* with their sign; 0: not known */
	int64_t total, reserved;
	int64_t address; /* 0: not known */
	int64_t type, device;
	uint32_t step; /* MEMORY_NULL: none */
	uint8_t known; /* bits of enum allocation_known */
	bool taken;
};

/* Calls `each` for every record, until it returns false or the store's watch has had enough. False: `each` returned
 * false. Errors stay in the store. */
bool memory_blocks(struct store *store, bool (*each)(void *user, const struct memory_block *block), void *user);

#endif
