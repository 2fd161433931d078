/* summary.h - the JSON text that op "summary" serves (requests.h), but for what only the catalogue knows: computed once,
 * from the totals that derive has written. Finish pool's thread. */
#ifndef PROFD_STORE_SUMMARY_H
#define PROFD_STORE_SUMMARY_H

#include "derive.h"
#include "finish.h"

/* Returns the text (free() it), NULL where out of memory or the file cannot be read. Where the device side was not recorded and
 * derived, what it would say is null. derive_ns is stated as given. */
char *summary_text(struct store *store, const struct store_ending *ending, const struct derived *derived,
		   uint64_t derive_ns);

#endif
