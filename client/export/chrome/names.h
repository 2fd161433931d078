/* names.h - the texts of a capture's table `strings`, escaped for JSON once, looked up by many threads at a time. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_NAMES_H
#define PROFD_CLIENT_EXPORT_CHROME_NAMES_H

#include "client/reader/reader.h"
#include "client/export/buffer.h"

/* A text that is written otherwise than the job had it. */
struct renamed {
	int64_t id;
	uint32_t offset; /* of the job's own, in `texts` */
};

struct names {
	struct buffer texts; /* each behind its length (uint32_t) */
	uint32_t *offsets;   /* by id: place in `texts` + 1, 0 = there is none */
	size_t size;
	struct renamed *renamed; /* by id */
	size_t renamed_count, renamed_size;
};

/* 0 or a negative errno. */
int names_load(struct names *n, const struct reader *r);
void names_deinit(struct names *n);
/* Puts the text of an id, without quotes; an id that has none (an event without a name) gives nothing. */
void names_put(const struct names *n, struct buffer *b, int64_t id);
/* The same text, which is not terminated. */
const char *names_text(const struct names *n, int64_t id, size_t *ret_bytes);
/* Does its (escaped) text begin so? */
bool names_begins(const struct names *n, int64_t id, const char *prefix);

/* Is the text written otherwise, because readers would take it for a step of ours? And what it was. */
bool names_is_renamed(const struct names *n, int64_t id);
void names_put_original(const struct names *n, struct buffer *b, int64_t id);

#endif
