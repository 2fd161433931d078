/* capture.h - from what a user calls a capture to an open file. */
#ifndef PROFD_CLIENT_READER_CAPTURE_H
#define PROFD_CLIENT_READER_CAPTURE_H

#include "client/link/connection.h"
#include "reader.h"

struct capture {
	struct reader reader;
	cJSON *row;	/* CAPTURE as the daemon's catalogue has it; NULL for a file that was copied away */
	cJSON *summary; /* SUMMARY; NULL where no daemon gave one */
};

/* Opens the capture with this id, or a file (a name with a slash in it, or ending in .db), or the newest where `which`
 * is NULL. Returns EXIT_DONE, or prints a sentence and returns its exit code. capture_close only after success. */
int capture_open(const char *which, struct capture *capture);
/* The same for the captures of daemons that are connected already. */
int capture_open_id(struct daemons *daemons, const char *id, struct capture *capture);
void capture_close(struct capture *capture);

/* SUMMARY of a capture, to be deleted; NULL with *failure filled. */
cJSON *capture_summary(struct daemons *daemons, const char *id, struct failure *failure);

#endif
