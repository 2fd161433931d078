/* outcome.h - what became of a unit of `profd snapshot`: a word, and the line that is printed for it. */
#ifndef PROFD_CLIENT_SNAPSHOT_OUTCOME_H
#define PROFD_CLIENT_SNAPSHOT_OUTCOME_H

#include "snapshot.h"

/* What became of a unit: the best that a member of it has come to, but a failure before all else. */
enum outcome snapshot_outcome(const struct unit *unit);
const char *snapshot_outcome_word(enum outcome outcome);

/* "train (job 77, 8 ranks)": to be freed. With the user's name where it is not `uid`. */
char *snapshot_describe(const struct unit *unit, int64_t uid);
/* The line of a unit behind that: "recorded, capture 17: step 20.01 ms, device busy not recorded". To be freed. */
char *snapshot_line(const struct unit *unit);

#endif
