/* segment.h - the sealed shared memory that carries the events of one capture from the agent to the daemon.
 *
 * The daemon creates it (memfd, sealed against shrinking, growing and more seals), allocates its pages before they are
 * needed, and passes the descriptor with ARM. So the pages count for the daemon, and a full machine is an error in the
 * daemon and not a SIGBUS in the job. The agent maps it and writes; the daemon copies out and gives chunks back.
 *
 *     header | chunk table | string arena | chunks
 *
 * A chunk's life: FREE -> (agent, compare-and-swap) OWNED by one thread, which appends whole records and publishes
 * `used` after each -> FULL (agent) -> the daemon copies `used` bytes, commits rows and `sequence` together, zeroes
 * `used` -> FREE. `sequence` is unique in the segment, so a chunk that a dead daemon had committed but not freed is
 * recognised by the next one. After the agent's death an OWNED chunk counts as FULL.
 *
 * Both sides distrust what they read: the agent reads only chunk states, counters and the two `_ready` bounds, and
 * clamps them to what it mapped; the daemon copies before it checks. */
#ifndef PROFD_PROTO_SEGMENT_H
#define PROFD_PROTO_SEGMENT_H

#include "events.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SEGMENT_MAGIC 0x31474553444f5250ull /* the bytes "PRODSEG1" */

enum chunk_state { CHUNK_FREE = 0, CHUNK_OWNED = 1, CHUNK_FULL = 2 };

/* A cache line each: writers of neighbouring chunks publish `used` after every record and must not disturb each other. */
struct segment_chunk {
	_Alignas(64) _Atomic uint32_t state; /* enum chunk_state */
	_Atomic uint32_t used;		     /* bytes of whole records */
	_Atomic uint32_t sequence;	     /* 1.. in order of acquisition; 0 = none */
	_Atomic uint32_t thread;	     /* kernel tid of the writer */
};

/* The phase of a recording, as its agent tells it. Numbers stay as they are: agents of earlier builds run on. */
enum segment_phase {
	SEGMENT_ARMED = 0,
	SEGMENT_WARMUP = 1,
	SEGMENT_RECORD = 2,
	SEGMENT_DRAIN = 3,  /* the last boundary has passed; records may still come */
	SEGMENT_DONE = 4,   /* the agent will not write again */
	SEGMENT_ENABLE = 5, /* between ARMED and WARMUP: collectors are being switched on */
};

struct segment_header {
	/* Written by the daemon before the descriptor leaves it; constant. */
	uint64_t magic;
	uint32_t version;
	uint32_t header_bytes;
	uint64_t total_bytes;
	uint64_t capture; /* the daemon's number of the capture */
	uint32_t chunk_bytes;
	uint32_t chunk_count;
	uint64_t table_at;   /* offset of struct segment_chunk[chunk_count] */
	uint64_t strings_at; /* offset of the string arena */
	uint64_t chunks_at;  /* offset of chunk 0; chunk i lies at chunks_at + i * chunk_bytes */
	uint32_t strings_bytes;
	uint32_t reserved0;

	/* Written by the daemon: how much of the segment has memory. Never shrinks. */
	_Alignas(64) _Atomic uint32_t chunks_ready;
	_Atomic uint32_t strings_ready; /* bytes */
	/* How many chunks are made ready before a recording begins; 0: not known yet, or an older daemon. Fewer if many
	 * captures are under way. */
	_Atomic uint32_t chunks_room;

	/* Free chunks among the ready ones. Agent subtracts when it takes one, daemon adds: an agent that sees 0 need
	 * not search. Only a hint: the chunks' states decide. */
	_Alignas(64) _Atomic int32_t chunks_free;

	/* Written by the agent. */
	_Alignas(64) _Atomic uint32_t next_sequence; /* last one given out; 0 at first */
	_Atomic uint32_t strings_used; /* end of the published part of the arena; SEGMENT_STRINGS_FIRST at first */
	_Alignas(64) _Atomic uint32_t phase; /* enum segment_phase */
	_Atomic uint32_t steps_recorded;
	_Atomic uint32_t steps_warmup; /* boundaries passed in warm-up */
	_Atomic uint32_t collectors;   /* bit set of enum collector that are on */
	_Atomic uint64_t
		base_monotonic; /* CLOCK_MONOTONIC and CLOCK_REALTIME of one instant at the start of the recording */
	_Atomic uint64_t base_realtime;
	_Atomic uint64_t
		record_start; /* CLOCK_MONOTONIC ns of the first and the last boundary of the recording; 0 = not yet */
	_Atomic uint64_t record_end;
	_Alignas(64) _Atomic uint64_t lost[LOSS_COUNT][EVENT_KIND_COUNT];
};

/* A text in the arena, at offset id * 8. An UNFINISHED text is being written by a thread, which may be interrupted. Its
 * place and length are known, so other threads write after it, but strings_used stops before it. A text that was never
 * finished becomes VOID, and readers skip it. Memory that nobody has claimed is zero. */
enum string_type { STRING_TEXT = 1, STRING_INPUTS = 2, STRING_VOID = 3, STRING_UNFINISHED = 4 };
struct segment_string {
	uint32_t bytes; /* of what follows; the entry's size is 8 + bytes, rounded up to 8 */
	uint32_t type;	/* enum string_type */
			/* char text[bytes] without a NUL; or uint32_t words[bytes / 4], see inputs.h */
};
#define SEGMENT_STRING_SIZE(bytes) ((((uint32_t)(bytes) + 7u) & ~7u) + 8u)
/* The first entry begins here, so that id 0 means "none". */
#define SEGMENT_STRINGS_FIRST 8u

/* One side's view of a mapped segment: pointers and bounds that were checked once. */
struct segment {
	int fd;
	void *map;
	size_t map_bytes;
	struct segment_header *header;
	struct segment_chunk *table;
	unsigned char *strings;
	unsigned char *chunks;
	uint32_t chunk_bytes;
	uint32_t chunk_count;
	uint32_t strings_bytes;
};

/* Daemon: creates, sizes and seals a segment for at most event_bytes of records (rounded to whole chunks, bounded by
 * limits.h) and maps it. Only the header, the table's first page, two chunks and the first 64 KiB of the arena get
 * memory; see segment_provide. Returns 0 or a negative errno; segment_deinit undoes it. */
int segment_create(struct segment *segment, uint64_t capture, uint64_t event_bytes, uint32_t chunk_bytes);

/* Daemon: gives memory to chunks [ready, chunks) and arena bytes [ready, strings_bytes), both clamped to the segment,
 * then publishes the new bounds. Returns 0 or a negative errno (-ENOSPC, -ENOMEM), after which the old bounds hold. */
int segment_provide(struct segment *segment, uint32_t chunks, uint32_t strings_bytes);

/* Are as many chunks ready as must be before a recording begins? */
bool segment_has_room(const struct segment *segment);

/* Daemon, on a descriptor that an agent offers back: checks the seals, maps it and checks the header against its size.
 * Takes the descriptor on success. Returns 0, a negative errno, or -EPROTO where it is not a segment of ours. */
int segment_adopt(struct segment *segment, int fd);

/* Agent: maps a descriptor from the daemon and checks seals, header and bounds. No fork child inherits the mapping.
 * Takes the descriptor on success. Uses at most half of `most` bytes of address space, for a moment all of them. If the
 * segment is larger, fewer chunks and names are mapped. Returns 0, -EPROTO, or another negative errno: -ENOMEM also
 * where `most` is too little, -EAGAIN where mlockall() is in effect and the process may not lock more memory. */
int segment_map(struct segment *segment, int fd, uint64_t most);

/* Daemon: gives the segment's memory back, even if others still have it mapped. Its contents are gone; pages that others write
 * later count for them. */
void segment_forget(struct segment *segment);

/* Unmaps and closes. For the daemon. */
void segment_deinit(struct segment *segment);
/* Unmaps only: the agent's descriptors are closed elsewhere (agent/core/keeper.h). */
void segment_unmap(struct segment *segment);

/* Agent, any thread: takes room for an UNFINISHED text of `bytes` bytes, at or after *tail, which is moved on (0 at
 * first; all threads share it). Never waits for another thread. Returns its id, 0 where there is no room. */
uint32_t segment_string_claim(const struct segment *segment, _Atomic uint32_t *tail, uint32_t bytes);

/* Agent: the text of a claimed entry is written. */
void segment_string_finish(const struct segment *segment, uint32_t id, uint32_t bytes, uint32_t type);

/* Moves strings_used past finished texts. last: no thread finishes a text any more, so it moves past unfinished ones,
 * too. Agent, any thread; daemon, with `last`, when its agent is gone. */
void segment_strings_publish(const struct segment *segment, int last);

/* Device and inode, which identify a segment. 0 or a negative errno. */
int segment_identity(int fd, uint64_t *ret_device, uint64_t *ret_inode);

/* Daemon: copies the records of chunk i into `to` (chunk_bytes long). Returns the number of bytes (clamped to the
 * chunk, rounded down to 8), and the chunk's sequence and thread. */
uint32_t segment_copy_chunk(const struct segment *segment, uint32_t i, void *to, uint32_t *ret_sequence,
			    uint32_t *ret_thread);

/* Daemon: gives chunk i back to the agent. */
void segment_free_chunk(struct segment *segment, uint32_t i);

/* Daemon: walks the published part of the arena from *at (0 at first), copying one entry at a time. Returns 1 with
 * *ret_id, *ret_type and *ret_bytes set and the bytes in `to` (LIMIT_STRING_BYTES long), 0 at the end, -EPROTO where the
 * arena is not well formed (the walk cannot go on). Entries of unknown type are returned too. */
int segment_next_string(const struct segment *segment, uint32_t *at, void *to, uint32_t *ret_id, uint32_t *ret_type,
			uint32_t *ret_bytes);

#endif
