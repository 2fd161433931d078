/* derive_boundaries.h - the steps of a capture as its STEP records state them, and which of them a time lies in. No state beyond
 * the struct. */
#ifndef PROFD_STORE_DERIVE_BOUNDARIES_H
#define PROFD_STORE_DERIVE_BOUNDARIES_H

#include "file.h"

struct boundary {
	uint64_t start, end; /* as the rows have them: ns since the base */
	uint32_t ordinal;
};

struct boundaries {
	struct boundary *steps; /* sorted by start; owned */
	size_t count;
};

/* 0 or a negative errno with store->sentence. free(steps) in either case. */
int boundaries_load(struct boundaries *ret, struct store *store);
/* The ordinal of the step in which `time` (ns since the base) lies, 0 where in none. */
uint32_t boundaries_find(const struct boundaries *boundaries, int64_t time);
/* Median duration, 0 where there is none. */
uint64_t boundaries_median(const struct boundaries *boundaries);

#endif
