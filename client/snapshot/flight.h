/* flight.h - one unit of `profd snapshot` while it is recorded: a trigger on a connection of its own, so that several
 * can be under way. One thread. */
#ifndef PROFD_CLIENT_SNAPSHOT_FLIGHT_H
#define PROFD_CLIENT_SNAPSHOT_FLIGHT_H

#include "snapshot.h"

struct flight_options {
	int64_t steps, warmup, at_multiple;
	int64_t timeout; /* ns; 0 = by the length of the steps */
	const char *label;
	uint32_t collectors; /* bit set of enum collector */
};

struct flight {
	struct unit *unit;
	struct daemon daemon; /* the connection's own descriptor */
	char trigger_id[SNAPSHOT_ID_BYTES];
	int64_t give_up; /* CLOCK_MONOTONIC ns: then the daemon is taken for stuck */
	bool open;
	bool cancelled;
};

/* Triggers the members of the unit that are still waiting. Where that does not work they have failed, and the flight is
 * not open. flight_end in every case. */
void flight_begin(struct flight *flight, const struct daemon *daemon, struct unit *unit,
		  const struct flight_options *options);
/* Takes what has come. */
void flight_receive(struct flight *flight);
/* Asks the daemon, on another connection, to end it; what was recorded still comes in. */
void flight_cancel(struct flight *flight);
/* Closes; members of which nothing was heard have failed with `code` and `why`. */
void flight_end(struct flight *flight, int code, const char *why);

#endif
