/* derive_memory.h - what the framework's allocator gave out: by operator and step, the peaks and who held them, what was left. */
#ifndef PROFD_STORE_DERIVE_MEMORY_H
#define PROFD_STORE_DERIVE_MEMORY_H

#include "file.h"
#include "proto/base/numbered.h"

/* What operators of one stack took in one step, bytes. */
struct memory_of_stack {
	int64_t cpu, device;
};

/* Writes the tables memory_totals, memory_steps, memory_holders and memory_leaks. Once rows are in their steps and operators have their
 * stacks. In a transaction; errors stay in the store. False: the user's memory did not suffice, and
 * the tables are empty. *ret_stacks: (stack, step, 0): struct memory_of_stack; the caller's, to be given to numbered_deinit(). */
bool derive_memory(struct store *store, struct numbered *ret_stacks);

#endif
