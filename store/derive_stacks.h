/* derive_stacks.h - evaluates stacks of Python: the time that each sample stands for, and sums by line and by
 * function. */
#ifndef PROFD_STORE_DERIVE_STACKS_H
#define PROFD_STORE_DERIVE_STACKS_H

#include "file.h"

/* Call it once steps are known, samples are in their steps, and launches in their operators, in a transaction.
 * `device`: a device's work was recorded. Does nothing where there is neither a sample nor an operator's stack.
 * Errors stay in the store. */
void derive_stacks(struct store *store, bool device);

#endif
