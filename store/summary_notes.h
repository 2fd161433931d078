/* summary_notes.h - what a capture's figures do not say by themselves: what could not be recorded, or be known. Finish pool's thread. */
#ifndef PROFD_STORE_SUMMARY_NOTES_H
#define PROFD_STORE_SUMMARY_NOTES_H

#include "file.h"

/* Of the session with CUPTI. 0 = there is nothing to say. */
struct notes {
	bool any; /* there was a session */
	uint64_t refused, options;
	int64_t known_from, missing_from; /* ns since the base, -1 = none */
	uint32_t missing_step;		  /* in which missing_from lies, or the first one behind it; 0 = none */
};

/* Reads them, and takes the devices out of what the steps that lie behind missing_from claim to have recorded. */
void notes_find(struct notes *ret, struct store *store);
/* Why the GPU's side ends early, for the capture's reason; "" = it does not. */
void notes_missing(const struct notes *notes, char *to, size_t bytes);
/* A sentence a line, into meta. */
void notes_write(const struct notes *notes, struct store *store);

#endif
