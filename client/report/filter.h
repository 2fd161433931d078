/* filter.h - a part of a capture alone: one thread, what happened in a range, one device, one stream. Views that can tell it read
 * the part as if it were the capture. */
#ifndef PROFD_CLIENT_REPORT_FILTER_H
#define PROFD_CLIENT_REPORT_FILTER_H

#include "client/reader/reader.h"

#include <stdbool.h>
#include <stddef.h>

/* What a table can be cut by. */
enum filter_part {
	FILTER_HOST = 1,   /* by thread and range: what the host did, and what that launched */
	FILTER_DEVICE = 2, /* by device and stream */
};

struct filter {
	const char *range;		/* a name, or a pattern with * and ?; NULL: all */
	int64_t thread, device, stream; /* -1: all */
};

/* A connection that sees the part. */
struct filtered {
	struct reader reader;
	struct filter_spans *spans;
};

/* Which parts (enum filter_part) a filter has. */
unsigned filter_parts(const struct filter *filter);
/* The filter as words of a line of text: "device 0, stream 7". Returns `to`. */
const char *filter_text(const struct filter *filter, char *to, size_t bytes);
/* Opens what is left of a capture by the given parts of the filter. Returns EXIT_DONE; EXIT_NO_TARGET where nothing has the
 * range's name, with the sentence printed. filter_close() only after success. */
int filter_open(const struct reader *whole, const struct filter *filter, unsigned parts, struct filtered *ret);
void filter_close(struct filtered *filtered);

#endif
