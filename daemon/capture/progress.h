/* progress.h - tells the client that follows a capture how far it is. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_PROGRESS_H
#define PROFD_DAEMON_CAPTURE_PROGRESS_H

#include <stdint.h>

struct capture;

/* Sends a row, if something has changed and the last row was not sent just now. */
void capture_progress(struct capture *capture, uint64_t now);

#endif
