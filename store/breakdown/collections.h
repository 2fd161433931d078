/* collections.h - stretches of time in which Python's collector of garbage ran (garbage_collections): for load.c. The
 * agent only looks at it now and then. What the thread did before and after tells more exactly when a collection
 * began and ended. */
#ifndef PROFD_STORE_BREAKDOWN_COLLECTIONS_H
#define PROFD_STORE_BREAKDOWN_COLLECTIONS_H

#include "activity.h"
#include "scan.h"

struct collection {
	int64_t row; /* rowid in garbage_collections */
	int64_t start, end;
	int64_t before, begun; /* began after `before`, by `begun`; both are `start` where that is exact */
	int64_t ran, gone;     /* ended after `ran`, by `gone` */
	uint32_t thread;
	uint8_t generation; /* enum garbage_generation */
};

struct collections {
	struct collection *items; /* by start */
	size_t count, room;
};

/* How far the start, and the end, may be off to either side. */
int64_t collection_start_error(const struct collection *collection);
int64_t collection_end_error(const struct collection *collection);

/* Reads the collections, if the file has any. */
void collections_read(struct collections *collections, struct scan *scan);
/* Takes an operator, a range or a call: at its start and at its end its thread collects nothing. */
void collections_take(struct collections *collections, uint32_t thread, int64_t start, int64_t end);
/* Adds the stretches to what the threads did. Call it once all operators were taken. */
void collections_mark(const struct collections *collections, struct activity *activity);
void collections_free(struct collections *collections);

#endif
