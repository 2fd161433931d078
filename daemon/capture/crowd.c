/* crowd.c - see crowd.h. Threads: those of the ingest pool, each with an ingest of its own; joined and left by the loop as well. */
#include "crowd.h"

#include "proto/base/log.h"

#include <string.h>

/* Memory ahead of need: little for armed captures, which may be many and wait long; from the warm-up on enough for the
 * highest rates seen. */
#define AHEAD_ARMED (1u << 20)
#define AHEAD_RUNNING (16u << 20)
/* Memory of all captures together, and the least of each: a trigger on a thousand processes must not take the node's memory. An
 * armed capture has a quarter. */
#define AHEAD_ALL (1u << 30)
#define AHEAD_LEAST (1u << 20)
#define PROVIDE_CHUNKS 64u
#define STRINGS_AHEAD_ARMED (256u << 10)
#define STRINGS_AHEAD_RUNNING (1u << 20)

#define MILLISECOND 1000000
/* Up to CROWD captures are each looked at as often as a single one; more of them less often, but at least every PAUSE_MOST. */
#define CROWD 32
#define PAUSE_MOST (50ll * MILLISECOND)

/* Captures whose segments are being emptied, of the whole daemon. */
static _Atomic uint32_t crowd;

void crowd_join(struct ingest *ingest)
{
	ingest->counted = true;
	atomic_fetch_add_explicit(&crowd, 1, memory_order_relaxed);
}

void crowd_leave(struct ingest *ingest)
{
	if (ingest->counted)
		atomic_fetch_sub_explicit(&crowd, 1, memory_order_relaxed);
	ingest->counted = false;
}

bool crowd_is_large(void)
{
	return atomic_load_explicit(&crowd, memory_order_relaxed) > CROWD;
}

int64_t crowd_pause(int64_t alone)
{
	int64_t pause = alone * (1 + atomic_load_explicit(&crowd, memory_order_relaxed) / CROWD);
	return pause < PAUSE_MOST ? pause : PAUSE_MOST;
}

static uint32_t ahead_of_need(uint32_t phase)
{
	uint32_t share = AHEAD_ALL / (atomic_load_explicit(&crowd, memory_order_relaxed) + 1);
	share = share > AHEAD_RUNNING ? AHEAD_RUNNING : share < AHEAD_LEAST ? AHEAD_LEAST : share;
	if (phase != SEGMENT_ARMED)
		return share;
	return share / 4 < AHEAD_ARMED ? share / 4 : AHEAD_ARMED;
}

static uint32_t chunks_wanted(const struct ingest *ingest, uint32_t phase)
{
	const struct segment *segment = &ingest->segment;
	uint32_t free_chunks = 0;
	for (uint32_t i = 0; i < ingest->ready_chunks; i++)
		free_chunks += atomic_load_explicit(&segment->table[i].state, memory_order_relaxed) == CHUNK_FREE;
	uint32_t used = ingest->ready_chunks - free_chunks;
	uint32_t ahead = ahead_of_need(phase) / segment->chunk_bytes;
	if (ahead < used)
		ahead = used; /* it doubles when records come faster than they can be inserted */
	if (phase == SEGMENT_DRAIN)
		ahead = 1; /* for what is written after the recording, by threads that had nothing to write before */
	uint32_t chunks = ingest->ready_chunks;
	if (free_chunks < ahead)
		chunks += ahead - free_chunks;
	return chunks < segment->chunk_count ? chunks : segment->chunk_count;
}

static uint32_t strings_wanted(const struct ingest *ingest, uint32_t phase)
{
	const struct segment *segment = &ingest->segment;
	uint32_t most = segment->strings_bytes;
	uint32_t used = atomic_load_explicit(&segment->header->strings_used, memory_order_acquire);
	if (used > most)
		used = most;
	uint32_t spare = phase == SEGMENT_ARMED ? STRINGS_AHEAD_ARMED : STRINGS_AHEAD_RUNNING;
	uint32_t strings = used + spare < ingest->ready_strings ? ingest->ready_strings : used * 2 + spare;
	return strings < most ? strings : most;
}

/* In portions, each published at once: a recording that is about to begin waits for the first. */
static int provide(struct ingest *ingest, uint32_t chunks, uint32_t strings)
{
	while (ingest->ready_chunks < chunks || ingest->ready_strings < strings) {
		uint32_t next =
			chunks - ingest->ready_chunks < PROVIDE_CHUNKS ? chunks : ingest->ready_chunks + PROVIDE_CHUNKS;
		int error = segment_provide(&ingest->segment, next, strings);
		if (error)
			return error;
		ingest->ready_chunks = next;
		if (strings > ingest->ready_strings)
			ingest->ready_strings = strings;
	}
	return 0;
}

void crowd_provide(struct ingest *ingest)
{
	const struct segment *segment = &ingest->segment;
	uint32_t phase = atomic_load_explicit(&segment->header->phase, memory_order_acquire);
	if (phase == SEGMENT_DONE || ingest->provide_failed)
		return;
	atomic_store_explicit(&segment->header->chunks_room, ahead_of_need(SEGMENT_RECORD) / segment->chunk_bytes,
			      memory_order_relaxed);
	int error = provide(ingest, chunks_wanted(ingest, phase), strings_wanted(ingest, phase));
	if (!error)
		return;
	log_line("capture %llu: no more memory for its segment: %s", (unsigned long long)ingest->facts.number,
		 strerror(-error));
	ingest->provide_failed = true;
}
