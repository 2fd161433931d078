/* names.h - names claims by the call and operator in which a thread was: for findings.c. */
#ifndef PROFD_STORE_FINDINGS_NAMES_H
#define PROFD_STORE_FINDINGS_NAMES_H

#include "claims.h"

/* Fills name and outer of all stretches that are kept. False: no memory. */
bool claims_name(const struct breakdown_capture *capture, struct claims *claims);

#endif
