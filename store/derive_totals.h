/* derive_totals.h - writes the tables operator_totals and range_totals: from what was gathered while records came in, or from the
 * rows. */
#ifndef PROFD_STORE_DERIVE_TOTALS_H
#define PROFD_STORE_DERIVE_TOTALS_H

#include "file.h"

/* In the transaction that is open, when every record is in its step. 0 or a negative errno with store->sentence. */
int derive_totals(struct store *store, struct totals *totals);

#endif
