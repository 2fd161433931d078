/* recompile.h - functions that torch.compile compiles again in the recorded steps: for findings.c. */
#ifndef PROFD_STORE_FINDINGS_RECOMPILE_H
#define PROFD_STORE_FINDINGS_RECOMPILE_H

#include "findings.h"
#include "texts.h"

/* For each of the breakdown's steps, the ns in which its thread compiled something again; owned by the caller. NULL:
 * no memory. */
int64_t *recompile_times(const struct breakdown_capture *capture);
/* How many functions were compiled again in the steps [first, last). A single one may be chance. */
size_t recompile_count(const struct breakdown_capture *capture, size_t first, size_t last);
/* Makes the compilations the finding's intervals. */
void recompile_intervals(const struct breakdown_capture *capture, size_t first, size_t last, struct finding *finding);
/* Fills subject, what, evidence and advice. */
void recompile_tell(const struct texts *texts, const struct breakdown_capture *capture, const struct findings *findings,
		    struct finding *finding);

#endif
