/* round.h - one run of `profd snapshot` through its units: each when its turn comes, several at a time. One thread; SIGINT
 * is blocked but while it waits in ppoll. */
#ifndef PROFD_CLIENT_SNAPSHOT_ROUND_H
#define PROFD_CLIENT_SNAPSHOT_ROUND_H

#include "flight.h"
#include "snapshot.h"
#include "turn.h"

#define ROUND_PARALLEL 64

struct round {
	struct turn turn;
	struct flight_options options;
	struct unit *units;
	size_t count;
	size_t parallel; /* units that may be recorded at a time; at most ROUND_PARALLEL */
	int64_t keep;	 /* snapshots of each process; 0 = all */
	/* Called when a unit is done, whatever became of it. */
	void (*finished)(struct unit *unit, void *context);
	void *context;

	/* The round's own. */
	size_t next, done;
	struct flight flights[ROUND_PARALLEL];
	size_t flying;
	int64_t began;	/* CLOCK_MONOTONIC ns */
	bool cancelled; /* by SIGINT */
};

/* Records all units. The first SIGINT cancels what is under way, the second leaves at once. */
void round_record(struct round *round);

#endif
