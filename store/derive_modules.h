/* derive_modules.h - in which nn.Module operators were called, by their stacks: sums by module and step. */
#ifndef PROFD_STORE_DERIVE_MODULES_H
#define PROFD_STORE_DERIVE_MODULES_H

#include "file.h"
#include "proto/base/numbered.h"

/* After derive_stacks, by which operators of the backward have the stacks of their forward. `device`: a device's work was recorded. Nothing
 * where no module was. `taken`: what derive_memory() found; NULL: memory was not recorded. In a transaction; errors stay in the store. */
void derive_modules(struct store *store, bool device, const struct numbered *taken);

#endif
