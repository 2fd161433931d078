/* derive.h - the one pass after the last event. It puts records into the steps that the STEP records state, writes
 * totals by name and step, and reduces threads to one row each. Then comes the device side (derive_launches.h). */
#ifndef PROFD_STORE_DERIVE_H
#define PROFD_STORE_DERIVE_H

#include "file.h"
#include "notes.h"

struct derived {
	uint64_t steps;	  /* STEP records */
	uint64_t step_ns; /* their median duration; 0 = none */
	uint64_t moved;	  /* events whose step was put right */
	uint64_t events;  /* rows in all event tables */
	bool cupti;	  /* the device side was recorded, and is derived */
	bool simulated;	  /* a device says so */
	bool unordered;	  /* the rows are as they came, without totals: see derive_nothing */
	/* How often these defects were found, by kind of device event. */
	uint64_t doubtful[EVENT_KIND_COUNT], unlaunched[EVENT_KIND_COUNT], earlier[EVENT_KIND_COUNT];
	uint64_t bare;	  /* calls that launched kernels which were not recorded */
	uint64_t mangled; /* names of kernels that could not be made readable */
	struct notes notes;
	char trouble[STORE_SENTENCE_BYTES]; /* why the device side could not be derived; empty = it could */
	bool blocks_left;		    /* there was no memory to add up what allocators gave out */
	bool collectives_left;		    /* there was no memory to list operations of several processes */
	bool rest_failed; /* derive_run failed while it placed rows that had no step when they were written */
};

/* cupti_ran: the agent said so; steps and sessions in the file may say it, too. full: the disk is full, so rows stay
 * in the step that they claim (a change of a row needs room for a copy of its page). no_rest: why rows that had no
 * step when they were written stay without one; NULL: they are placed.
 *
 * The transaction stays open: the caller adds the rest of a finished capture, and commits. So the file is either as
 * it was ingested or finished, whenever the daemon ends. Otherwise a negative errno with store->sentence; the caller
 * undoes the transaction. */
int derive_run(struct store *store, struct totals *totals, struct device *device, bool cupti_ran, bool full,
	       const char *no_rest, struct derived *ret);

/* Instead of derive_run, where that took too long. Rows and steps stay as they came. There are no totals, and nothing
 * says what launched what. The transaction stays open, too. */
int derive_nothing(struct store *store, const struct totals *totals, struct derived *ret);

#endif
