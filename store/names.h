/* names.h - readable and short names of kernels, for the table kernel_names. No locks. */
#ifndef PROFD_STORE_NAMES_H
#define PROFD_STORE_NAMES_H

#include "file.h"

/* Fills kernel_names for the names of kernels in temp.sums (sums.h), and adds their texts to strings. *ret_refused:
 * how many names the demangler refused. 0 or a negative errno with store->sentence. */
int names_write(struct store *store, uint64_t *ret_refused);

#endif
