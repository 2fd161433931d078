/* line.h - in which line of the user's own Python a finding's time went, where stacks were recorded. */
#ifndef PROFD_STORE_FINDINGS_LINE_H
#define PROFD_STORE_FINDINGS_LINE_H

#include "findings.h"

/* Adds it to the evidence of each finding, as far as samples were taken in its intervals. What cannot be read adds nothing. */
void findings_line(sqlite3 *db, uint32_t step_thread, struct findings *findings);

#endif
