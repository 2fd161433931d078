/* about.h - what a capture is about: whose it is, when and how it was recorded. */
#ifndef PROFD_CLIENT_REPORT_ABOUT_H
#define PROFD_CLIENT_REPORT_ABOUT_H

#include "client/reader/capture.h"

/* The capture as the catalogue has it; for a file that was copied away, as the file itself says: docs/json.md,
 * "capture" of profd.show. The caller deletes it. */
cJSON *about_capture(struct capture *capture);
/* An array of sentences about what the figures do not show. The caller deletes it. */
cJSON *about_notes(struct reader *reader);

#endif
