/* check.h - a row of `profd doctor`: what was looked at, and what was found. */
#ifndef PROFD_CLIENT_DOCTOR_CHECK_H
#define PROFD_CLIENT_DOCTOR_CHECK_H

#include "client/ui/table.h"

/* Adds a row. `result` is "ok", "warning" or "failed". */
void doctor_check(struct table *table, const char *check, const char *result, const char *sentence);

#endif
