/* record_walk.h - the records in a buffer of CUPTI's, one after the other, also behind one that cannot be read. */
#ifndef PROFD_AGENT_CUPTI_RECORD_WALK_H
#define PROFD_AGENT_CUPTI_RECORD_WALK_H

#include "api.h"
#include "layout.h"

struct record_walk {
	const struct cupti_layout *layout;
	cupti_subscriber subscriber; /* whose records they are; NULL: of the calls without one */
	/* Gets each record of a kind that the layout knows. NULL: records are only counted. */
	void (*each)(void *user, const void *record);
	void *user;
	uint64_t gaps; /* places at which records were lost, as they could not be read: counted up */
};

/* How many records there are in data[0..valid). */
uint64_t record_walk(struct record_walk *walk, uint8_t *data, size_t valid);

#endif
