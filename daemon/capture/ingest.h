/* ingest.h - brings the events of one running capture from its segment into its file, on a thread of the ingest pool,
 * while the capture runs. ingest_finish.h closes the capture afterwards.
 *
 * The loop's thread makes an ingest, submits it, and meanwhile touches only the fields that are marked so below. When
 * `done` is called, all of it belongs to the loop again. */
#ifndef PROFD_DAEMON_CAPTURE_INGEST_H
#define PROFD_DAEMON_CAPTURE_INGEST_H

#include "store/store.h"
#include "daemon/core/counters.h"
#include "handoff.h"
#include "proto/segment.h"
#include "proto/base/space.h"
#include "daemon/core/work.h"

#include <stdatomic.h>

enum ingest_wish {
	INGEST_RUN = 0,
	INGEST_END = 1,	     /* the agent writes no more: take all records, from owned chunks, too, and end */
	INGEST_HAND_OFF = 2, /* take the full chunks and close the file: another daemon goes on */
};

struct ingest {
	struct work work;
	struct capture_facts facts; /* constant while submitted; the finish updates status, reason and figures */
	/* What the messages COLLECTOR and DONE have told. The loop writes it before it submits the finish, which adds
	 * what was lost. */
	struct store_ending ending;
	struct handoff handoff; /* its collectors are written by the loop before the wish INGEST_HAND_OFF */

	struct segment segment;
	bool has_segment;
	bool counted; /* in the crowd, which shares processors and memory (crowd.h) */
	bool adopt;   /* the partial file is there already */
	int folder;
	const char *folder_path;
	struct store *store; /* owned */
	bool store_open;
	bool noted; /* there is a note of it */

	/* The loop's to write, any time. */
	_Atomic uint32_t wish;
	/* The loop's to read, any time: 1 once the store cannot take more; then the store has a sentence that says
	 * why. */
	_Atomic uint32_t trouble;

	/* 1 once the disk was seen below its floor; the loop may set it back. */
	_Atomic uint32_t low;
	const struct space_floor *floor; /* NULL: the disk is not looked at */

	/* The loop's to write, any time: 1 = a user who may do so has given up the finish. */
	_Atomic uint32_t give_up;
	/* 1 once events_most have been taken in. */
	_Atomic uint32_t over;
	uint64_t events_most; /* records that the capture may have; 0 = no limit */
	uint64_t finish_most; /* ns of a processor for putting them into order; 0 = no limit */

	/* The ingest thread's. */
	struct store_processors processors; /* as the capture began */
	uint64_t unreadable[EVENT_KIND_COUNT];
	uint64_t unstored[EVENT_KIND_COUNT]; /* records left in the segment because the store was full */
	uint64_t beyond[EVENT_KIND_COUNT];   /* records beyond events_most */
	uint32_t strings_at;
	bool strings_broken;
	bool provide_failed;
	bool base_known;
	uint32_t ready_chunks, ready_strings;
	unsigned quiet;			      /* passes without data */
	uint64_t events_taken;		      /* records whose rows are committed */
	uint64_t taking_events, taking_bytes; /* of this pass */
	uint64_t lost[LOSS_COUNT];	      /* the finish's: over all kinds */
	uint64_t finish_ns;		      /* the finish's: how long it took */
	struct counters_flow *flow;	      /* counts the records and bytes taken in; NULL: they are not counted */
	uint64_t inserted_ns, inserted_cpu;   /* time spent in passes, and that on a processor */

	void *owner; /* the loop's: struct capture */
};

/* Makes an ingest over a segment (taken; NULL for a capture of which only the file is left). memory: counts for the
 * user who pays; it outlives the ingest. NULL where out of memory. */
struct ingest *ingest_new(const struct capture_facts *facts, const struct segment *segment, bool adopt, int folder,
			  const char *folder_path, struct memory *memory);
/* Unmaps the segment and closes what is open. Takes NULL. */
void ingest_free(struct ingest *ingest);

/* work.run of the ingest pool: writes a note (armed.h), so that the next daemon knows of the capture. Before ingest_run. */
int64_t ingest_note(struct work *work);
/* work.run of the ingest pool. */
int64_t ingest_run(struct work *work);

#endif
