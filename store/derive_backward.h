/* derive_backward.h - the Python stacks of what autograd runs. */
#ifndef PROFD_STORE_DERIVE_BACKWARD_H
#define PROFD_STORE_DERIVE_BACKWARD_H

#include "file.h"

#include <stdbool.h>

/* Were stacks of operators recorded? */
bool derive_has_operator_stacks(struct store *store);
/* Operators that run in a node of autograd get the stack of the node's forward. Call it once threads are merged, in a
 * transaction. Errors stay in the store. */
void derive_backward(struct store *store);

#endif
