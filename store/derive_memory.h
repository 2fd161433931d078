/* derive_memory.h - the blocks that the framework's allocator gave out: sums by operator and step, peaks and who held
 * them, and what was not given back. */
#ifndef PROFD_STORE_DERIVE_MEMORY_H
#define PROFD_STORE_DERIVE_MEMORY_H

#include "file.h"
#include "proto/base/numbered.h"

/* What operators of one stack took in one step, bytes. */
struct memory_of_stack {
	int64_t cpu, device;
};

/* Writes the tables memory_totals, memory_steps, memory_holders and memory_leaks. Call it once rows are in their
 * steps and operators have their stacks, in a transaction. Errors stay in the store. False: the memory that the user
 * may take did not suffice, and the tables are empty. *ret_stacks has a struct memory_of_stack for each (stack, step,
 * 0); the caller gives it to numbered_deinit(). */
bool derive_memory(struct store *store, struct numbered *ret_stacks);

#endif
