/* derive_load.h - reads from the file what device.h gathers, where not every record was put in by this process. */
#ifndef PROFD_STORE_DERIVE_LOAD_H
#define PROFD_STORE_DERIVE_LOAD_H

#include "file.h"

/* Begins anew. 0 or a negative errno with store->sentence. */
int derive_load(struct device *device, struct store *store);

#endif
