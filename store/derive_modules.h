/* derive_modules.h - finds by their stacks in which nn.Module operators were called: sums by module and step. */
#ifndef PROFD_STORE_DERIVE_MODULES_H
#define PROFD_STORE_DERIVE_MODULES_H

#include "file.h"
#include "proto/base/numbered.h"

/* Call it after derive_stacks, which gives operators of the backward the stacks of their forward, and in a
 * transaction. `device`: a device's work was recorded. `taken`: what derive_memory() found; NULL: memory was not
 * recorded. Does nothing where no module was recorded. Errors stay in the store. */
void derive_modules(struct store *store, bool device, const struct numbered *taken);

#endif
