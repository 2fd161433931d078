/* collections.h - stretches of time in which Python's collector of garbage ran (garbage_collections): for load.c. The agent looks for them now
 * and then. What the thread did before one and after it, while the agent did not look, tells more closely when it began and ended. */
#ifndef PROFD_STORE_BREAKDOWN_COLLECTIONS_H
#define PROFD_STORE_BREAKDOWN_COLLECTIONS_H

#include "activity.h"
#include "scan.h"

struct collection {
	int64_t row; /* rowid in garbage_collections */
	int64_t start, end;
	int64_t before, begun; /* it began later than this, and no later than that; the same where its start is exact */
	int64_t ran, gone;     /* and it ended later than this, and no later than that */
	uint32_t thread;
	uint8_t generation; /* enum garbage_generation */
};

struct collections {
	struct collection *items; /* by start */
	size_t count, room;
};

/* What the start and the end may be off, to either side. */
int64_t collection_start_error(const struct collection *collection);
int64_t collection_end_error(const struct collection *collection);

/* Reads them, of a file that has them. */
void collections_read(struct collections *collections, struct scan *scan);
/* An operator, a range or a call: at its start and at its end its thread collects nothing. */
void collections_take(struct collections *collections, uint32_t thread, int64_t start, int64_t end);
/* After all operators: adds the stretches to what the threads did. */
void collections_mark(const struct collections *collections, struct activity *activity);
void collections_free(struct collections *collections);

#endif
