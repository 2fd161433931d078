/* notes.h - sentences about things that a capture could not record or know, and that its figures do not show. */
#ifndef PROFD_STORE_NOTES_H
#define PROFD_STORE_NOTES_H

#include "file.h"

/* Notes of the last session with CUPTI. */
struct notes {
	bool any; /* there was a session */
	uint64_t refused, options;
	int64_t known_from, missing_from; /* ns since the base, -1 = none */
	uint32_t missing_step;		  /* the step at missing_from, or the first one after it; 0 = none */
};

/* Reads the notes from the file. Steps after missing_from no longer claim that devices were recorded in them. */
void notes_find(struct notes *ret, struct store *store);
/* Why the device side ends early, as a reason of the capture; "": it does not. */
void notes_missing(const struct notes *notes, char *to, size_t bytes);
/* Writes the sentences into meta, one for each line. */
void notes_write(const struct notes *notes, struct store *store);

/* Adds what the NVTX collector said: why it recorded nothing, or what it left out. Call it before other notes are
 * added. */
void notes_nvtx(const struct store_collector *nvtx, struct store *store);

/* Adds one more sentence. */
void notes_add(struct store *store, const char *sentence);

#endif
