/* finish.h - ends a capture whose rows are all in its file: puts them into order, adds what is known beside them (losses,
 * collectors, facts), writes the summary, and gives the file its final name. One thread at a time, no locks. */
#ifndef PROFD_STORE_FINISH_H
#define PROFD_STORE_FINISH_H

#include "device.h"
#include "store.h"
#include "totals.h"

/* What one collector has reported. */
struct store_collector {
	bool wanted, told, ran;
	uint64_t enable; /* ns */
	char sentence[248];
};

/* What whoever recorded knows beside the rows. Numbers may be a peer's: they are bounded here. */
struct store_ending {
	struct store_collector collectors[COLLECTOR_COUNT];
	uint64_t lost[LOSS_COUNT][EVENT_KIND_COUNT];
	uint64_t record_start, record_end; /* the first and the last boundary, CLOCK_MONOTONIC ns; 0 = not known */
	uint64_t done_at;		   /* CLOCK_MONOTONIC ns when the end was known; 0 = does not matter */
	uint64_t step_before, step_during, enable, drain, agent_cpu, agent_bytes, other_thread_steps;
	uint32_t late, step_source;
	bool has_done; /* step_before to step_source are known, but for step_range */
	char step_range[128];
	char id[ID_BYTES], trigger_id[ID_BYTES]; /* as users know them */
};

/* Adds to what was lost. */
void store_count_lost(struct store_ending *ending, unsigned loss, unsigned kind, uint64_t count);

/* What became of it. */
struct store_finished {
	bool kept;		   /* the file is there; false: nothing was recorded, and there is none */
	uint64_t lost[LOSS_COUNT]; /* over all kinds */
	uint64_t moved;		   /* events whose step was put right */
	uint64_t derive_ns, derive_cpu, summary_ns, disk_ns;
	uint64_t since_last; /* ns from the last boundary until the summary was made */
	/* What is worth an administrator's attention, though the file is good; empty = nothing. */
	char warning[STORE_SENTENCE_BYTES];
};

/* Takes an open store and closes it. facts: status, reason and figures are put right by what is in the file. `watch` (NULL:
 * nobody) may end the work of putting rows into order: they stay as they came then, and facts->reason says so.
 *
 * 0, or a negative errno: the file could not be written and is gone, and facts->reason says why. */
int store_complete(struct store *store, struct totals *totals, struct device *device, struct store_ending *ending,
		   struct capture_facts *facts, const struct store_watch *watch, struct store_finished *ret);

#endif
