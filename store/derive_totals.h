/* derive_totals.h - writes the tables operator_totals and range_totals, either from sums that were made while records
 * came in or from the rows. */
#ifndef PROFD_STORE_DERIVE_TOTALS_H
#define PROFD_STORE_DERIVE_TOTALS_H

#include "file.h"

/* Call it in the open transaction, when every record is in its step. 0 or a negative errno with store->sentence. */
int derive_totals(struct store *store, struct totals *totals);

#endif
