/* projections.h - where on a device lies what a range, or a step, launched: from the start of its first operation to the
 * end of its last, one a stream. Kineto calls them gpu_user_annotation.
 *
 * A range has the launches of its own thread between its ends; a step those of all threads. Start/end ranges have none:
 * they are not a thread's. Memory: 100 bytes a range that launched something, PROJECTION_RANGES_MAX of them at most. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_PROJECTIONS_H
#define PROFD_CLIENT_EXPORT_CHROME_PROJECTIONS_H

#include "client/reader/reader.h"
#include "nesting.h"

#include <stddef.h>
#include <stdint.h>

#define PROJECTION_RANGES_MAX 300000

struct projection {
	int64_t id;   /* of the range; 0 = a step */
	int64_t name; /* id of the text, or the step's number */
};

struct projection_range {
	int64_t id, parent, name; /* parent: id of the range or operator around it; 0 = none */
};

struct projections {
	struct projection_range *ranges; /* by id */
	size_t range_count;
	struct projection *all;
	struct nesting_slice *slices; /* of the same places */
	size_t count, size;
	uint64_t left_out; /* ranges for which there was no room */
};

/* 0 or a negative errno; nothing where the file's schema is older than 2. `draw`: else the ranges alone. */
int projections_find(struct projections *p, const struct reader *r, int64_t schema, bool draw);
/* A range (not an operator) that launched something; NULL where `id` is none. */
const struct projection_range *projections_range(const struct projections *p, int64_t id);
void projections_deinit(struct projections *p);

#endif
