/* inputs.h - operators' inputs as arguments of a trace event. Calls repeat their inputs: what was looked up is kept in
 * a small cache. One thread a cache. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_INPUTS_H
#define PROFD_CLIENT_EXPORT_CHROME_INPUTS_H

#include "client/reader/reader.h"
#include "client/export/buffer.h"

#define INPUTS_CACHE 512

struct inputs_entry {
	int64_t id; /* 0 = empty */
	struct buffer text;
};

struct inputs {
	sqlite3_stmt *find;
	struct inputs_entry entries[INPUTS_CACHE];
};

/* A NULL `find` is made at the first use. */
void inputs_deinit(struct inputs *i);
/* Puts `,"Input Dims":...,"Input type":...` and so on, what is there of it. 0 or a negative errno. */
int inputs_put(struct inputs *i, const struct reader *r, struct buffer *b, int64_t id);

#endif
