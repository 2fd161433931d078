/* record_walk.h - goes through the records in a buffer of CUPTI, one after the other, also past a record that cannot be
 * read. */
#ifndef PROFD_AGENT_CUPTI_RECORD_WALK_H
#define PROFD_AGENT_CUPTI_RECORD_WALK_H

#include "api.h"
#include "layout.h"

struct record_walk {
	const struct cupti_layout *layout;
	cupti_subscriber subscriber; /* the subscriber whose records they are; NULL: we have none */
	/* Gets each record of a kind that the layout knows. NULL: records are only counted. */
	void (*each)(void *user, const void *record);
	void *user;
	uint64_t gaps; /* counts the places at which records were lost because they could not be read */
};

/* How many records there are in data[0..valid). */
uint64_t record_walk(struct record_walk *walk, uint8_t *data, size_t valid);

#endif
