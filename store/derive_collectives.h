/* derive_collectives.h - operations of several processes: what was asked for, how large it was, and when it ran. */
#ifndef PROFD_STORE_DERIVE_COLLECTIVES_H
#define PROFD_STORE_DERIVE_COLLECTIVES_H

#include "file.h"

/* Fills `collectives`. After derive_launches, by which it is known what ran on a device. False: there is no memory. In a transaction; errors stay in
 * the store. */
bool derive_collectives(struct store *store);

#endif
