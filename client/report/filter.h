/* filter.h - a part of a capture: one thread, what happened in a range or in a phase, one device, one stream. Views
 * that can be cut so read the part as if it were the whole capture. */
#ifndef PROFD_CLIENT_REPORT_FILTER_H
#define PROFD_CLIENT_REPORT_FILTER_H

#include "client/reader/reader.h"

#include <stdbool.h>
#include <stddef.h>

/* How a table can be cut. */
enum filter_part {
	FILTER_HOST = 1,   /* by thread, range and phase: what the host did, and what it launched */
	FILTER_DEVICE = 2, /* by device and stream */
};

struct breakdown_capture;

struct filter {
	const char *range;		/* a name, or a pattern with * and ?; NULL: all */
	int64_t thread, device, stream; /* -1: all */
	unsigned phases;		/* bits of enum phase; 0: all */
};

/* A connection that only sees the part. */
struct filtered {
	struct reader reader;
	struct filter_spans *spans;
};

/* Is a device, or a phase (enum phase), in what the filter leaves? NULL: all are. */
bool filter_has_device(const struct filter *filter, int64_t device);
bool filter_has_phase(const struct filter *filter, unsigned phase);
/* Which parts (enum filter_part) a filter has. */
unsigned filter_parts(const struct filter *filter);
/* The filter in words: "device 0, stream 7". Returns `to`. */
const char *filter_text(const struct filter *filter, char *to, size_t bytes);
/* Does what the filter names by number exist? EXIT_DONE: it does, or nothing of that kind was recorded, which other
 * functions say. EXIT_NO_TARGET: it does not, and a sentence names those that exist. */
int filter_check(const struct reader *whole, const struct filter *filter);
/* Opens the part of a capture that these parts of the filter leave. `breakdown`: the capture's, computed; it has to
 * outlive *ret, and is only used if the filter has phases. Returns EXIT_DONE; or EXIT_NO_TARGET, with a sentence
 * printed: nothing has the range's name, or no time is in the phases. Call filter_close() only after success. */
int filter_open(const struct reader *whole, const struct filter *filter, unsigned parts,
		const struct breakdown_capture *breakdown, struct filtered *ret);
/* Phases (bits) of words such as "forward,backward", and of train, validation and test. 0: a word is not known, and
 * `why` says which. */
unsigned filter_phases(const char *words, char *why, size_t bytes);
void filter_close(struct filtered *filtered);

#endif
