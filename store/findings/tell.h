/* tell.h - what a finding says: for findings.c. */
#ifndef PROFD_STORE_FINDINGS_TELL_H
#define PROFD_STORE_FINDINGS_TELL_H

#include "findings.h"
#include "claims.h"
#include "processor.h"
#include "texts.h"

/* Fills subject, what, evidence, advice and sql. grown: by how many ns the row of a step unlike the others grew. */
void findings_tell(const struct texts *texts, const struct breakdown_capture *capture, const struct findings *findings,
		   const struct claims *claims, const struct processor *processor, int64_t grown,
		   struct finding *finding);
/* Fills the verdict: one line. */
void findings_tell_line(struct findings *findings);

#endif
