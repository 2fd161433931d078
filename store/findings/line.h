/* line.h - the line of the user's own Python that has most of a finding's time, where stacks were recorded. */
#ifndef PROFD_STORE_FINDINGS_LINE_H
#define PROFD_STORE_FINDINGS_LINE_H

#include "findings.h"

/* Adds the line to the evidence of each finding, if samples were taken in its intervals. If they cannot be read, it
 * adds nothing. */
void findings_line(sqlite3 *db, uint32_t step_thread, struct findings *findings);

#endif
