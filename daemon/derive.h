/* derive.h - the one pass after the last event: step membership put right by the boundaries that the STEP records state,
 * totals by name and step written, threads reduced to one row each. Finish pool's thread. */
#ifndef PROFD_DAEMON_DERIVE_H
#define PROFD_DAEMON_DERIVE_H

#include "store.h"
#include "totals.h"

struct derived {
	uint64_t steps;	  /* STEP records */
	uint64_t step_ns; /* their median duration; 0 = none */
	uint64_t moved;	  /* events whose step was put right */
	uint64_t events;  /* rows in all event tables */
};

/* full: the disk is, so that rows stay in the step that they claim (to change one takes room for a copy of its page).
 * 0 or a negative errno with store->sentence. Runs in a transaction of its own. */
int derive_run(struct store *store, struct totals *totals, bool full, struct derived *ret);

#endif
