/* tracks.h - the breakdown as tracks of a trace, in a process of their own: into what the step thread's time went, and why each
 * device was idle, the same stretches and words as `profd show --by breakdown` adds up; and as counters how busy each device was, and
 * how much waited for it.
 *
 * Found first, in the caller's thread; what is kept then is small. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_TRACKS_H
#define PROFD_CLIENT_EXPORT_CHROME_TRACKS_H

#include "chrome.h"
#include "client/export/slice.h"
#include "client/export/stream.h"

/* A stretch of a track. */
struct tracks_slice {
	int64_t start, end;
	uint16_t track; /* 0 = the step thread, n = the device of index n - 1 */
	uint16_t row;	/* enum host_row; enum idle_row */
};

struct tracks_value {
	int64_t time;
	uint32_t device; /* index */
	uint32_t queued; /* operations that were launched and had not begun; the most of the interval */
	double busy;	 /* % of the interval */
};

struct tracks {
	struct tracks_slice *slices;
	size_t slice_count, slice_room;
	struct tracks_value *values;
	size_t value_count, value_room;
	int64_t devices[64]; /* by index; further ones have no track */
	size_t device_count;
	int64_t joined;	      /* stretches shorter than this, ns, are joined to what most of them was; 0: none is */
	int64_t interval;     /* of the counters, ns */
	uint32_t step_thread; /* 0 = not known */
	bool failed;	      /* no memory */
	char *verdict; /* JSON, as store/findings/json.h has it, without SQL and intervals; NULL: there is no breakdown */
	const struct slice *part;
};

/* A capture that has no breakdown has no tracks. `part` outlives it. 0 or a negative errno. */
int tracks_find(struct tracks *tracks, const struct reader *r, int64_t schema, const struct slice *part);
/* Names of the tracks, slices, values. 0 or a negative errno. */
int tracks_put(const struct tracks *tracks, const struct chrome *c, struct block *block);
void tracks_deinit(struct tracks *tracks);

#endif
