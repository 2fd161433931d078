/* names.h - the texts of a capture's table `strings`, escaped for JSON once, looked up by many threads at a time. */
#ifndef PROFD_CLIENT_EXPORT_NAMES_H
#define PROFD_CLIENT_EXPORT_NAMES_H

#include "../reader.h"
#include "buffer.h"

struct names {
	struct buffer texts; /* each behind its length (uint32_t) */
	uint32_t *offsets;   /* by id: place in `texts` + 1, 0 = there is none */
	size_t size;
};

/* 0 or a negative errno. */
int names_load(struct names *n, const struct reader *r);
void names_deinit(struct names *n);
/* Puts the text of an id, without quotes; an id that has none (an event without a name) gives nothing. */
void names_put(const struct names *n, struct buffer *b, int64_t id);
/* Does its (escaped) text begin so? */
bool names_begins(const struct names *n, int64_t id, const char *prefix);

#endif
