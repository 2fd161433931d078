/* places.h - at which line of the user's own Python, and in which nn.Module, a finding's intervals are. Looked up when somebody asks for them: no file
 * has it. */
#ifndef PROFD_STORE_FINDINGS_PLACES_H
#define PROFD_STORE_FINDINGS_PLACES_H

#include "findings.h"

/* Ids in `strings`; 0: not known, or not recorded. */
struct place {
	int64_t file, line, function;
	const char *module; /* its path, as `show --by modules` has it; NULL: as above */
};

#define PLACES (FINDINGS_MOST * FINDING_INTERVALS)

struct places {
	struct place of[FINDINGS_MOST][FINDING_INTERVALS];
	char *paths[PLACES]; /* of the modules, each once */
	size_t path_count;
};

/* Of each interval that has a thread: where most of it went. The operators that the interval names tell it, as far as their stacks were recorded; else all
 * that this thread ran in it, each by its own time; where these fill less than half of the interval, samples of the thread's stack do, if there are any.
 * What cannot be read is not known. */
void places_find(sqlite3 *db, const struct findings *findings, struct places *ret);
void places_free(struct places *places);

#endif
