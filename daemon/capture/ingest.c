/* ingest.c - see ingest.h. Thread: one of the ingest pool at a time. No locks: the loop and the thread share the fields
 * that ingest.h marks. */
#include "ingest.h"
#include "armed.h"
#include "crowd.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "names.h"
#include "processors.h"
#include "proto/inputs.h"
#include "proto/limits.h"
#include "proto/plausible.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Chunks of one pass: about 26,000 operators, 20 ms of inserting; then other captures have their turn and this one gets
 * its free chunks back. */
#define PASS_CHUNKS 32
#define MILLISECOND 1000000
/* After so many passes without data the store's caches are given back. */
#define QUIET_LONG 20

struct ingest *ingest_new(const struct capture_facts *facts, const struct segment *segment, bool adopt, int folder,
			  const char *folder_path, struct memory *memory)
{
	struct ingest *ingest = calloc(1, sizeof *ingest);
	if (!ingest)
		return NULL;
	ingest->facts = *facts;
	ingest->work.run = ingest_run;
	ingest->adopt = adopt;
	ingest->folder = folder;
	ingest->folder_path = folder_path;
	ingest->store = store_new(memory);
	if (!ingest->store) {
		free(ingest);
		return NULL;
	}
	if (segment) {
		ingest->segment = *segment;
		ingest->has_segment = true;
		crowd_join(ingest);
	}
	return ingest;
}

void ingest_free(struct ingest *ingest)
{
	if (!ingest)
		return;
	crowd_leave(ingest);
	store_free(ingest->store);
	if (ingest->has_segment)
		segment_deinit(&ingest->segment);
	free(ingest);
}

static uint32_t load(const _Atomic uint32_t *value)
{
	return atomic_load_explicit(value, memory_order_acquire);
}

/* --- the file --- */

/* An earlier daemon has committed it. */
static bool already_taken(struct ingest *ingest, uint32_t sequence)
{
	return ingest->adopt && store_has_ingested(ingest->store, sequence);
}

static void open_store(struct ingest *ingest)
{
	struct store *store = ingest->store;
	ingest->store_open = true;
	store_set_demangler(store, &names_demangler);
	if (ingest->adopt) {
		store_open(store, ingest->folder, ingest->folder_path, ingest->facts.number);
		ingest->base_known = store_base(store) != 0;
		return;
	}
	if (store_create(store, ingest->folder, ingest->folder_path, ingest->facts.number))
		return;
	uint64_t device = 0, inode = 0;
	segment_identity(ingest->segment.fd, &device, &inode);
	armed_begin_file(store, &ingest->facts, &ingest->handoff, device, inode);
}

/* TIME columns count from the agent's own base. A base that was never set, or that no clock can show, is replaced by
 * the first time that comes (0: none has come yet). */
static void know_base(struct ingest *ingest, uint64_t first_time)
{
	if (ingest->base_known)
		return;
	uint64_t base = atomic_load_explicit(&ingest->segment.header->base_monotonic, memory_order_acquire);
	uint64_t real = atomic_load_explicit(&ingest->segment.header->base_realtime, memory_order_acquire);
	if (base == 0 || base > INT64_MAX || real > INT64_MAX) {
		if (first_time == 0)
			return;
		base = first_time;
		real = clock_realtime() - (clock_monotonic() - first_time);
	}
	ingest->base_known = true;
	store_set_base(ingest->store, base, real);
}

/* --- records --- */

static void unreadable(struct ingest *ingest, const union event_any *event)
{
	ingest->unreadable[event->head.kind < EVENT_KIND_COUNT ? event->head.kind : 0]++;
}

static struct plausible_bounds bounds_of(const struct ingest *ingest)
{
	return plausible_around(ingest->base_known ? store_base(ingest->store) : 0, ingest->segment.strings_bytes);
}

/* Puts the records of one copied chunk into the store. 0 or the store's error. */
static int parse_chunk(struct ingest *ingest, const void *bytes, size_t n)
{
	size_t at = 0;
	union event_any event;
	know_base(ingest, 0);
	struct plausible_bounds bounds = bounds_of(ingest);
	for (;;) {
		enum event_verdict verdict = event_read(bytes, n, &at, &event);
		if (verdict == EVENT_END)
			return 0;
		if (verdict == EVENT_BROKEN) {
			ingest->unreadable[0]++;
			return 0;
		}
		if (verdict == EVENT_UNKNOWN || !plausible(&event, &bounds)) {
			unreadable(ingest, &event);
			continue;
		}
		if (ingest->events_most && ingest->events_taken + ingest->taking_events >= ingest->events_most) {
			ingest->beyond[event.head.kind]++;
			atomic_store_explicit(&ingest->over, 1, memory_order_release);
			continue;
		}
		ingest->taking_events++;
		if (!ingest->base_known) {
			know_base(ingest, event_time(&event));
			bounds = bounds_of(ingest);
		}
		int error = store_put_event(ingest->store, &event);
		if (error)
			return error;
	}
}

static void put_strings(struct ingest *ingest)
{
	if (ingest->strings_broken)
		return;
	struct {
		_Alignas(8) char bytes[LIMIT_STRING_BYTES];
		struct inputs_text text;
	} *scratch = malloc(sizeof *scratch);
	if (!scratch)
		return; /* the next pass finds them */
	uint32_t id, type, bytes;
	for (;;) {
		int more =
			segment_next_string(&ingest->segment, &ingest->strings_at, scratch->bytes, &id, &type, &bytes);
		if (more < 0) {
			log_line("capture %llu: its arena of names is not well formed",
				 (unsigned long long)ingest->facts.number);
			ingest->strings_broken = true;
		}
		if (more <= 0)
			break;
		if (type == STRING_TEXT) {
			text_clean(scratch->bytes, bytes);
			if (store_put_string(ingest->store, id, scratch->bytes, bytes))
				break;
		} else if (type == STRING_INPUTS) {
			if (inputs_to_json((const uint32_t *)(const void *)scratch->bytes, bytes / 4, &scratch->text) ==
				    0 &&
			    store_put_inputs(ingest->store, id, scratch->text.dims, scratch->text.types,
					     scratch->text.strides, scratch->text.concrete))
				break;
		}
	}
	free(scratch);
}

static bool takeable(const struct ingest *ingest, uint32_t i, bool last)
{
	uint32_t state = load(&ingest->segment.table[i].state);
	return state == CHUNK_FULL || (last && state == CHUNK_OWNED);
}

struct candidate {
	uint32_t index, sequence;
};

/* The chunks to be taken now, at most `room`, in the order in which the agent began them: so the records of each thread come
 * in the order in which it wrote them. A chunk that was begun after the scan began waits for the next pass.
 * Of earlier chunks, a thread has always filled all before its latest. */
static uint32_t find_chunks(const struct ingest *ingest, bool last, struct candidate *found, uint32_t room)
{
	uint32_t newest = load(&ingest->segment.header->next_sequence), count = 0;
	for (uint32_t i = 0; i < ingest->ready_chunks; i++) {
		if (!takeable(ingest, i, last))
			continue;
		uint32_t sequence = load(&ingest->segment.table[i].sequence);
		if (sequence > newest && !last)
			continue;
		if (count == room) {
			/* A smaller one takes the place of the largest; `found` is sorted. */
			if (sequence >= found[count - 1].sequence)
				continue;
			count--;
		}
		uint32_t at = count++;
		for (; at && found[at - 1].sequence > sequence; at--)
			found[at] = found[at - 1];
		found[at] = (struct candidate){i, sequence};
	}
	return count;
}

static void count_taken(struct ingest *ingest)
{
	ingest->events_taken += ingest->taking_events;
	if (!ingest->flow)
		return;
	atomic_fetch_add_explicit(&ingest->flow->events, ingest->taking_events, memory_order_relaxed);
	atomic_fetch_add_explicit(&ingest->flow->bytes, ingest->taking_bytes, memory_order_relaxed);
}

/* One transaction: rows, names and chunk numbers of at most PASS_CHUNKS chunks. Returns how many chunks it took (0: none
 * was there, or the store has failed). */
static uint32_t pass(struct ingest *ingest, bool last)
{
	struct candidate found[PASS_CHUNKS];
	uint32_t taken[PASS_CHUNKS], sequences[PASS_CHUNKS], count = 0, known = 0;
	struct store *store = ingest->store;
	uint32_t candidates = find_chunks(ingest, last, found, PASS_CHUNKS);
	if (candidates == 0)
		return 0;
	ingest->taking_events = ingest->taking_bytes = 0;
	uint64_t began = clock_monotonic(), began_cpu = clock_thread();
	void *bytes = aligned_alloc(64, ingest->segment.chunk_bytes);
	/* Then the capture ends as with a full disk; no part of a chunk is kept. */
	if (!bytes)
		store_set_error(store, -ENOMEM, "the daemon is out of memory");
	if (store_begin(store))
		candidates = 0;
	if (load(&ingest->segment.header->collectors) & 1u << COLLECTOR_CUPTI)
		store_expect_device(store);
	for (uint32_t k = 0; k < candidates; k++) {
		uint32_t i = found[k].index, sequence, thread;
		uint32_t n = segment_copy_chunk(&ingest->segment, i, bytes, &sequence, &thread);
		if (already_taken(ingest, sequence)) {
			segment_free_chunk(&ingest->segment, i);
			known++;
			continue;
		}
		/* The segment keeps its memory; only our page tables drop it, so that the daemon's resident memory
		 * stays small. */
		madvise(ingest->segment.chunks + (size_t)i * ingest->segment.chunk_bytes, ingest->segment.chunk_bytes,
			MADV_DONTNEED);
		store_chunk(store, thread, sequence);
		ingest->taking_bytes += n;
		if (parse_chunk(ingest, bytes, n))
			break;
		taken[count] = i;
		sequences[count++] = sequence;
	}
	free(bytes);
	put_strings(ingest);
	for (uint32_t i = 0; i < count; i++)
		store_put_ingested(store, sequences[i]);
	if (store_commit(store)) {
		count = known = 0;
	} else {
		for (uint32_t i = 0; i < count; i++)
			segment_free_chunk(&ingest->segment, taken[i]);
		count_taken(ingest);
	}
	ingest->inserted_ns += clock_monotonic() - began;
	ingest->inserted_cpu += clock_thread() - began_cpu;
	return count + known;
}

/* Counts the records that stay in the segment because the store takes no more. */
static void count_unstored(struct ingest *ingest)
{
	void *bytes = aligned_alloc(64, ingest->segment.chunk_bytes);
	for (uint32_t i = 0; bytes && i < ingest->ready_chunks; i++) {
		if (!takeable(ingest, i, true))
			continue;
		uint32_t sequence, thread;
		size_t n = segment_copy_chunk(&ingest->segment, i, bytes, &sequence, &thread), at = 0;
		union event_any event;
		enum event_verdict verdict;
		while ((verdict = event_read(bytes, n, &at, &event)) == EVENT_OK || verdict == EVENT_UNKNOWN)
			ingest->unstored[event.head.kind < EVENT_KIND_COUNT ? event.head.kind : 0]++;
	}
	free(bytes);
}

static int64_t ended(struct ingest *ingest)
{
	crowd_leave(ingest);
	if (store_error(ingest->store))
		count_unstored(ingest);
	else {
		/* A thread may have been killed while it wrote a name: the names after that one. */
		segment_strings_publish(&ingest->segment, 1);
		store_begin(ingest->store);
		put_strings(ingest);
		store_commit(ingest->store);
	}
	/* The derive may have to wait for those of many other captures. */
	store_rest(ingest->store);
	return WORK_DONE;
}

static int64_t hand_off(struct ingest *ingest)
{
	if (store_error(ingest->store))
		return WORK_DONE;
	store_begin(ingest->store);
	put_strings(ingest);
	handoff_write_told(ingest->store, &ingest->handoff);
	store_commit(ingest->store);
	return WORK_DONE;
}

/* Once a pass, that is about once in 2 MiB. Below the floor nothing is lost yet: the loop decides what to do. */
static void look_at_disk(struct ingest *ingest)
{
	struct space space;
	if (!ingest->floor || load(&ingest->low))
		return;
	space_look(ingest->folder, ingest->floor, &space);
	if (space_missing(&space))
		atomic_store_explicit(&ingest->low, 1, memory_order_release);
}

int64_t ingest_note(struct work *work)
{
	struct ingest *ingest = (struct ingest *)work;
	int error = armed_write(ingest->folder, &ingest->facts, &ingest->handoff, ingest->segment.fd);
	ingest->noted = error == 0;
	if (error)
		log_line("capture %llu: no note of it can be written: %s", (unsigned long long)ingest->facts.number,
			 strerror(-error));
	return WORK_DONE;
}

int64_t ingest_run(struct work *work)
{
	struct ingest *ingest = (struct ingest *)work;
	uint32_t wish = load(&ingest->wish);
	if (ingest->ready_chunks == 0) {
		processors_read(ingest->facts.who.pid, ingest->facts.who.start_time, &ingest->processors);
		if (ingest->has_segment) {
			uint32_t ready = load(&ingest->segment.header->chunks_ready);
			ingest->ready_chunks =
				ready < ingest->segment.chunk_count ? ready : ingest->segment.chunk_count;
			ready = load(&ingest->segment.header->strings_ready);
			ingest->ready_strings =
				ready < ingest->segment.strings_bytes ? ready : ingest->segment.strings_bytes;
			crowd_provide(ingest);
		}
		open_store(ingest);
		if (ingest->noted)
			armed_remove(ingest->folder, ingest->facts.number);
		store_rest(ingest->store);
	}
	if (!ingest->has_segment)
		return WORK_DONE;
	uint32_t taken = 0;
	/* Also at a hand-off: the agent goes on without a daemon for a while. */
	if (wish != INGEST_END)
		crowd_provide(ingest);
	if (!store_error(ingest->store))
		taken = pass(ingest, wish == INGEST_END);
	if (store_error(ingest->store) && !load(&ingest->trouble)) {
		log_line("capture %llu: %s", (unsigned long long)ingest->facts.number, store_sentence(ingest->store));
		atomic_store_explicit(&ingest->trouble, 1, memory_order_release);
	}
	if (taken) {
		ingest->quiet = 0;
		look_at_disk(ingest);
		if (crowd_is_large())
			store_rest(ingest->store);
		return 0;
	}
	if (wish == INGEST_HAND_OFF)
		return hand_off(ingest);
	if (wish != INGEST_RUN)
		return ended(ingest);
	if (ingest->quiet < 1000)
		ingest->quiet++;
	if (ingest->quiet == QUIET_LONG)
		store_rest(ingest->store);
	uint32_t phase = load(&ingest->segment.header->phase);
	if (phase == SEGMENT_DRAIN || phase == SEGMENT_RECORD)
		return crowd_pause(ingest->quiet < 20 ? 2 * MILLISECOND : 5 * MILLISECOND);
	return crowd_pause(ingest->quiet < 100 ? 2 * MILLISECOND : 10 * MILLISECOND);
}
