/* derive_backward.h - the Python stacks of what autograd runs. */
#ifndef PROFD_STORE_DERIVE_BACKWARD_H
#define PROFD_STORE_DERIVE_BACKWARD_H

#include "file.h"

#include <stdbool.h>

/* Were stacks of operators recorded? */
bool derive_has_operator_stacks(struct store *store);
/* Gives operators that run in a node of autograd the stack of its forward. Once threads are merged. In a transaction; errors stay in the
 * store. */
void derive_backward(struct store *store);

#endif
