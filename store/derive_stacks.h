/* derive_stacks.h - what stacks of Python say: how long each sample stands for, and sums by line and by function. */
#ifndef PROFD_STORE_DERIVE_STACKS_H
#define PROFD_STORE_DERIVE_STACKS_H

#include "file.h"

/* Once steps are known, samples lie in theirs, and launches in their operators. `device`: a device's work was recorded. Nothing where there
 * is neither a sample nor an operator's stack. In a transaction; errors stay in the store. */
void derive_stacks(struct store *store, bool device);

#endif
