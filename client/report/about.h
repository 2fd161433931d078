/* about.h - what a capture is of: whose, when, how it was recorded. */
#ifndef PROFD_CLIENT_REPORT_ABOUT_H
#define PROFD_CLIENT_REPORT_ABOUT_H

#include "client/reader/capture.h"

/* The capture as the catalogue has it, or, for a file that was copied away, as the file itself says: docs/json.md, "capture" of
 * profd.show. To be deleted. */
cJSON *about_capture(struct capture *capture);
/* An array of sentences on what the figures do not show. To be deleted. */
cJSON *about_notes(struct reader *reader);

#endif
