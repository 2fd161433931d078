/* use.h - notes below the breakdown: how much the step's thread and the workers ran. */
#ifndef PROFD_CLIENT_REPORT_USE_H
#define PROFD_CLIENT_REPORT_USE_H

#include "client/reader/reader.h"
#include "client/ui/table.h"

#include "store/breakdown/breakdown.h"

/* Notes lines below the table, for the steps [first, last). If nothing was recorded, a line says so, but only if the
 * table is shown `alone`: imported traces never have these figures. */
void report_note_use(struct table *table, const struct reader *reader, const struct breakdown *breakdown, size_t first,
		     size_t last, bool alone);

#endif
