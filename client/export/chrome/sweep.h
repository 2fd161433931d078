/* sweep.h - gives each slice its lane, as slices come: backwards in time. What ends last comes first, so that a range is seen before what
 * it holds. That is the order in which threads write their events, turned round, so that nothing needs sorting as a rule. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_SWEEP_H
#define PROFD_CLIENT_EXPORT_CHROME_SWEEP_H

#include "nesting.h"

/* 48 bits of ns are 78 hours on either side of the base; what a broken file has beyond is taken for that. */
#define SWEEP_TIME_LIMIT (INT64_C(1) << 47)

static inline int64_t sweep_clamp(int64_t value, int64_t low)
{
	return value < low ? low : value >= SWEEP_TIME_LIMIT ? SWEEP_TIME_LIMIT - 1 : value;
}

struct step {
	uint64_t thread;
	int64_t start, end;
};

/* A slice that is open; only where it starts matters when going backwards. */
struct opened {
	int64_t start;
	uint32_t within; /* row of the innermost operator that it is, or lies in; 0 = none */
};

/* The innermost last. */
struct lane {
	struct opened *all;
	size_t used, size;
};

struct sweep {
	struct nesting *nesting;
	struct step *steps; /* by thread, then time; they do not overlap */
	size_t step_count;
	size_t move_size[NESTING_TABLES], track_size;
	/* The track in hand */
	uint64_t track;
	bool begun;
	size_t steps_from, steps_at; /* steps [from, at) of the track start before the slice in hand ends */
	struct lane lanes[NESTING_LANES];
};

/* The steps of the file, which have their track's own place. 0 or a negative errno; sweep_deinit() afterwards in any case. */
int sweep_init(struct sweep *s, struct nesting *nesting, const struct reader *r);
/* Takes the next slice: track by track, the latest end first, of equal ends the earliest start first. 0 or -ENOMEM. */
int sweep_take(struct sweep *s, enum nesting_table table, int64_t row, uint64_t track, int64_t start, int64_t end);
/* Behind the last slice. A thread that stepped, and did nothing else that was recorded, has a track, too. 0 or -ENOMEM. */
int sweep_add_step_tracks(struct sweep *s);
void sweep_deinit(struct sweep *s);

#endif
