/* steps.h - the steps on which a verdict can be given: for findings.c. */
#ifndef PROFD_STORE_FINDINGS_STEPS_H
#define PROFD_STORE_FINDINGS_STEPS_H

#include "store/breakdown/breakdown.h"

/* Marks steps that hold an evaluation or a compilation, if others do not; and steps that take much longer than the
 * others, if these are an exception. *ret_count: how many are marked. `unlike` has room for all steps. False: no
 * memory. */
bool steps_unlike(const struct breakdown *breakdown, size_t first, size_t last, bool *unlike, size_t *ret_count);
/* Finds the longest run of adjacent steps in [*first, *last) over which the work that is queued for the device
 * changes by at most a tenth of the run's wall time: the idle time of these steps was caused in these steps. *first
 * == *last afterwards: there is no such run. False: no memory. */
bool steps_balanced(const struct breakdown *breakdown, size_t device, size_t *first, size_t *last);

#endif
