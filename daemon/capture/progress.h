/* progress.h - tells those who follow a capture how far it is. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_PROGRESS_H
#define PROFD_DAEMON_CAPTURE_PROGRESS_H

#include <stdint.h>

struct capture;

/* A row, where something has changed and the last one is not just out. */
void capture_progress(struct capture *capture, uint64_t now);

#endif
