/* recompile.h - torch.compile compiles in the steps what it had compiled before: for findings.c. */
#ifndef PROFD_STORE_FINDINGS_RECOMPILE_H
#define PROFD_STORE_FINDINGS_RECOMPILE_H

#include "findings.h"
#include "texts.h"

/* ns of each step in which its thread compiled something again; as many as the breakdown's steps, the caller's. NULL: no memory. */
int64_t *recompile_times(const struct breakdown_capture *capture);
/* Functions that were compiled again in the steps [first, last). One may be by chance. */
size_t recompile_count(const struct breakdown_capture *capture, size_t first, size_t last);
/* The compilations, as intervals of the finding. */
void recompile_intervals(const struct breakdown_capture *capture, size_t first, size_t last, struct finding *finding);
/* Fills subject, what, evidence and advice. */
void recompile_tell(const struct texts *texts, const struct breakdown_capture *capture, const struct findings *findings,
		    struct finding *finding);

#endif
