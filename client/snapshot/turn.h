/* turn.h - when a unit's turn has come: which of its processes are recorded now, and which are skipped, with the reason.
 * One thread. */
#ifndef PROFD_CLIENT_SNAPSHOT_TURN_H
#define PROFD_CLIENT_SNAPSHOT_TURN_H

#include "snapshot.h"

/* What it is judged by. */
struct turn {
	struct daemons *daemons;
	int64_t steps, warmup; /* of the recording */
	int64_t timeout;       /* ns; 0 = by the length of the steps */
	double factor;	       /* record only what is slower than its usual step times this; 0 = whatever it is */
	cJSON *history;	       /* captures with the label, oldest first; NULL where they are not wanted */
	/* The answers of `ps`, and when they came (CLOCK_MONOTONIC ns). */
	cJSON *processes[DAEMONS_MAX];
	int64_t fresh[DAEMONS_MAX];
};

/* Asks the unit's daemon how its processes are now. Members that are not to be recorded are skipped, or have failed.
 * Returns true where a member still waits to be recorded. */
bool turn_judge(struct turn *turn, struct unit *unit);
/* Deletes the answers and the history. */
void turn_deinit(struct turn *turn);

#endif
