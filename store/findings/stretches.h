/* stretches.h - which stretches of the claims are kept as intervals: the longest of each kind, and those that get a
 * name. For claims.c. */
#ifndef PROFD_STORE_FINDINGS_STRETCHES_H
#define PROFD_STORE_FINDINGS_STRETCHES_H

#include "claims.h"

void stretches_keep(struct claims *claims, const struct claims_stretch *stretch);
/* Keeps it only to be named. */
void stretches_keep_named(struct claims *claims, const struct claims_stretch *stretch);

#endif
