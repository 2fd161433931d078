/* derive_boundaries.h - the steps of a capture, from its STEP records, and the step in which a time lies. */
#ifndef PROFD_STORE_DERIVE_BOUNDARIES_H
#define PROFD_STORE_DERIVE_BOUNDARIES_H

#include "file.h"

struct boundary {
	uint64_t start, end; /* ns since the base, as in the rows */
	uint32_t ordinal;
};

struct boundaries {
	struct boundary *steps; /* sorted by start; owned */
	size_t count;
};

/* 0 or a negative errno with store->sentence. free(steps) in either case. */
int boundaries_load(struct boundaries *ret, struct store *store);
/* The ordinal of the step in which `time` (ns since the base) lies; 0: it lies in none. */
uint32_t boundaries_find(const struct boundaries *boundaries, int64_t time);
/* Median duration of the steps; 0 = there are none. */
uint64_t boundaries_median(const struct boundaries *boundaries);

#endif
