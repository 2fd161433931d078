/* steps.h - which steps a verdict can be given on: for findings.c. */
#ifndef PROFD_STORE_FINDINGS_STEPS_H
#define PROFD_STORE_FINDINGS_STEPS_H

#include "store/breakdown/breakdown.h"

/* Marks the steps that hold an evaluation or a compilation, where others do not, and those that take much longer than the others, where these are an
 * exception; *ret_count: how many. `unlike` has room for all steps. False: no memory. */
bool steps_unlike(const struct breakdown *breakdown, size_t first, size_t last, bool *unlike, size_t *ret_count);
/* The longest run of adjacent steps of [*first, *last) in which what is queued for the device changes by a tenth of the run's wall time
 * at most: the idle time of these steps was caused in these steps. *first == *last afterwards: there is none. False: no
 * memory. */
bool steps_balanced(const struct breakdown *breakdown, size_t device, size_t *first, size_t *last);

#endif
