/* use.h - what stands beside the breakdown: how much the step's thread and the workers ran. */
#ifndef PROFD_CLIENT_REPORT_USE_H
#define PROFD_CLIENT_REPORT_USE_H

#include "client/reader/reader.h"
#include "client/ui/table.h"

#include "store/breakdown/breakdown.h"

/* Lines below the table, of the steps from `first` to before `last`. Where nothing was recorded they say that if the table is shown `alone`:
 * traces of others never have it. */
void report_note_use(struct table *table, const struct reader *reader, const struct breakdown *breakdown, size_t first,
		     size_t last, bool alone);

#endif
