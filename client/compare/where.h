/* where.h - where the time of a step goes (docs/breakdown.md), in two sides: rows whose differences add up to that of the step. One
 * thread. */
#ifndef PROFD_CLIENT_COMPARE_WHERE_H
#define PROFD_CLIENT_COMPARE_WHERE_H

#include "gather.h"

/* Both sides are paired. Damaged files end the program, as they do for `profd show`. compare_free afterwards. */
void compare_breakdown(const struct side *a, const struct side *b, struct compare_table *ret);

#endif
