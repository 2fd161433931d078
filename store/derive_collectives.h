/* derive_collectives.h - collective operations, which several processes do together: what was asked for, how large it
 * was, and when it ran. */
#ifndef PROFD_STORE_DERIVE_COLLECTIVES_H
#define PROFD_STORE_DERIVE_COLLECTIVES_H

#include "file.h"

/* Fills `collectives`. Call it after derive_launches, which finds what ran on a device, and in a transaction. False:
 * there is no memory. Errors stay in the store. */
bool derive_collectives(struct store *store);

#endif
