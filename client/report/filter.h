/* filter.h - a part of a capture alone: one thread, what happened in a range or in a phase, one device, one stream. Views that can tell it read
 * the part as if it were the capture. */
#ifndef PROFD_CLIENT_REPORT_FILTER_H
#define PROFD_CLIENT_REPORT_FILTER_H

#include "client/reader/reader.h"

#include <stdbool.h>
#include <stddef.h>

/* What a table can be cut by. */
enum filter_part {
	FILTER_HOST = 1,   /* by thread, range and phase: what the host did, and what that launched */
	FILTER_DEVICE = 2, /* by device and stream */
};

struct breakdown_capture;

struct filter {
	const char *range;		/* a name, or a pattern with * and ?; NULL: all */
	int64_t thread, device, stream; /* -1: all */
	unsigned phases;		/* bits of enum phase; 0: all */
};

/* A connection that sees the part. */
struct filtered {
	struct reader reader;
	struct filter_spans *spans;
};

/* Is a device, or a phase (enum phase), of what the filter leaves? NULL: all are. */
bool filter_has_device(const struct filter *filter, int64_t device);
bool filter_has_phase(const struct filter *filter, unsigned phase);
/* Which parts (enum filter_part) a filter has. */
unsigned filter_parts(const struct filter *filter);
/* The filter as words of a line of text: "device 0, stream 7". Returns `to`. */
const char *filter_text(const struct filter *filter, char *to, size_t bytes);
/* Is there what the filter names by number? EXIT_DONE, also where nothing of that kind was recorded, which others say; else EXIT_NO_TARGET, and a
 * sentence that names those that are there. */
int filter_check(const struct reader *whole, const struct filter *filter);
/* Opens what is left of a capture by the given parts of the filter. `breakdown`: the capture's, computed, which stays longer than *ret; asked
 * for where the filter has phases. Returns EXIT_DONE; EXIT_NO_TARGET where nothing has the range's name, or no time is in the phases, with
 * the sentence printed. filter_close() only after success. */
int filter_open(const struct reader *whole, const struct filter *filter, unsigned parts,
		const struct breakdown_capture *breakdown, struct filtered *ret);
/* Phases (bits) of "forward,backward"; also train, validation and test. 0: one of the words is none, as `why` says. */
unsigned filter_phases(const char *words, char *why, size_t bytes);
void filter_close(struct filtered *filtered);

#endif
