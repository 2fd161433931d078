/* places.h - the line of the user's own Python, and the nn.Module, of a finding's intervals. They are looked up when
 * somebody asks for them: no file has them. */
#ifndef PROFD_STORE_FINDINGS_PLACES_H
#define PROFD_STORE_FINDINGS_PLACES_H

#include "findings.h"

/* Ids in `strings`; 0: not known, or not recorded. */
struct place {
	int64_t file, line, function;
	const char *module; /* its path, as in `show --by modules`; NULL: not known, or not recorded */
};

#define PLACES (FINDINGS_MOST * FINDING_INTERVALS)

struct places {
	struct place of[FINDINGS_MOST][FINDING_INTERVALS];
	char *paths[PLACES]; /* of the modules, each once */
	size_t path_count;
};

/* Finds, for each interval that has a thread, where most of it went. The operators that the interval names tell it,
 * if their stacks were recorded. Otherwise all operators do that this thread ran in it, each by its own time. If
 * these fill less than half of the interval, samples of the thread's stack do, if there are any. A place that cannot
 * be read is not known. */
void places_find(sqlite3 *db, const struct findings *findings, struct places *ret);
void places_free(struct places *places);

#endif
