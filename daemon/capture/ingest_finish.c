/* ingest_finish.c - see ingest_finish.h. Thread: one of the finish pool at a time. No locks. */
#include "ingest_finish.h"
#include "ingest.h"
#include "processors.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Adds up the records that the agent has counted as lost, and those that were lost here. */
static void tell_losses(struct ingest *ingest)
{
	struct store_ending *ending = &ingest->ending;
	memset(ending->lost, 0, sizeof ending->lost);
	for (unsigned loss = 0; ingest->has_segment && loss < LOSS_COUNT; loss++)
		for (unsigned kind = 0; kind < EVENT_KIND_COUNT; kind++)
			ending->lost[loss][kind] =
				atomic_load_explicit(&ingest->segment.header->lost[loss][kind], memory_order_relaxed);
	for (unsigned kind = 0; kind < EVENT_KIND_COUNT; kind++) {
		store_count_lost(ending, LOSS_UNREADABLE, kind, ingest->unreadable[kind]);
		store_count_lost(ending, LOSS_LIMIT, kind, ingest->beyond[kind]);
		store_count_lost(ending, LOSS_NO_SPACE, kind, ingest->unstored[kind]);
	}
}

static void tell_boundaries(struct ingest *ingest)
{
	if (!ingest->has_segment)
		return;
	ingest->ending.record_start = atomic_load(&ingest->segment.header->record_start);
	ingest->ending.record_end = atomic_load(&ingest->segment.header->record_end);
}

struct bound {
	struct ingest *ingest;
	uint64_t until; /* of the thread's processor time, ns; 0 = no bound */
};

static int look_at_bound(void *context, const char *doing, char sentence[STORE_SENTENCE_BYTES])
{
	const struct bound *bound = context;
	const struct ingest *ingest = bound->ingest;
	(void)doing;
	if (atomic_load_explicit(&ingest->give_up, memory_order_acquire)) {
		snprintf(sentence, STORE_SENTENCE_BYTES, "cancelled by the user");
		return -ECANCELED;
	}
	if (bound->until && clock_thread() > bound->until) {
		snprintf(sentence, STORE_SENTENCE_BYTES,
			 "it took more than the %.3g s of a processor that finish_time allows",
			 (double)ingest->finish_most / 1e9);
		return -ETIME;
	}
	return 0;
}

int64_t ingest_finish(struct work *work)
{
	struct ingest *ingest = (struct ingest *)work;
	struct bound bound = {ingest, ingest->finish_most ? clock_thread() + ingest->finish_most : 0};
	const struct store_watch watch = {look_at_bound, &bound};
	struct store_finished finished;
	uint64_t began = clock_monotonic(), began_cpu = clock_thread();
	tell_losses(ingest);
	tell_boundaries(ingest);
	struct store_processors now;
	processors_read(ingest->facts.who.pid, ingest->facts.who.start_time, &now);
	ingest->ending.processors = processors_between(&ingest->processors, &now);
	int error = store_finish(ingest->store, &ingest->ending, &ingest->facts, &watch, &finished);
	ingest->store_open = false;
	memcpy(ingest->lost, finished.lost, sizeof ingest->lost);
	if (error)
		log_line("capture %s: %s", ingest->ending.id, ingest->facts.reason);
	if (*finished.warning)
		log_line("capture %s: %s", ingest->ending.id, finished.warning);
	log_verbose("capture %s: inserts %.1f ms (%.1f on a processor), derive %.1f ms (%.1f; %llu moved), summary "
		    "%.1f ms, to disk %.1f ms, %.1f ms since the last boundary; finish %.1f ms (%.1f on a processor)",
		    ingest->ending.id, (double)ingest->inserted_ns / 1e6, (double)ingest->inserted_cpu / 1e6,
		    (double)finished.derive_ns / 1e6, (double)finished.derive_cpu / 1e6,
		    (unsigned long long)finished.moved, (double)finished.summary_ns / 1e6,
		    (double)finished.disk_ns / 1e6, (double)finished.since_last / 1e6,
		    (double)(clock_monotonic() - began) / 1e6, (double)(clock_thread() - began_cpu) / 1e6);
	return WORK_DONE;
}
