/* derive_load.h - reads what device.h gathers from the file, for a file that got some records from another process. */
#ifndef PROFD_STORE_DERIVE_LOAD_H
#define PROFD_STORE_DERIVE_LOAD_H

#include "file.h"

/* Begins anew: what `device` has gathered before is dropped. 0 or a negative errno with store->sentence. */
int derive_load(struct device *device, struct store *store);

#endif
