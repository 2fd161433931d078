/* derive_stacks.h - what Python's sampled stacks say: how long each sample stands for, and sums by line and by function. */
#ifndef PROFD_STORE_DERIVE_STACKS_H
#define PROFD_STORE_DERIVE_STACKS_H

#include "file.h"

/* Once steps are known and samples lie in theirs. Nothing where there is no sample. In a transaction; errors stay in the store. */
void derive_stacks(struct store *store);

#endif
