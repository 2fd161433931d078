/* events.h - the event records, as structs expanded from events.def.
 *
 * Little-endian, 8-byte aligned, length first. A writer fills a struct and copies `size` bytes into a chunk; a reader
 * uses event_read(), which copies the record into a zeroed struct. So an older, shorter record has zeros at its end,
 * and a longer one loses only fields that this release does not know. */
#ifndef PROFD_PROTO_EVENTS_H
#define PROFD_PROTO_EVENTS_H

#include "collectors.h"

#include <stddef.h>
#include <stdint.h>

struct event_head {
	uint16_t size; /* of the whole record in bytes, a multiple of 8 */
	uint8_t kind;  /* enum event_kind */
	uint8_t flags; /* enum event_flag */
	uint32_t step; /* ordinal within the capture, 0 = outside of every step */
};

enum event_kind {
#define EVENT(number, NAME, name, table, min_size, side, place, description) EVENT_##NAME = (number),
#define RESERVED(number, NAME, name, table, description) EVENT_##NAME = (number),
#include "events.def"
	EVENT_KIND_COUNT = 64 /* kinds fit into the loss table of a segment */
};
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	_Static_assert((number) < EVENT_KIND_COUNT, "event_" #name " has a row in the loss table");
#define RESERVED(number, NAME, name, table, description)                                                               \
	_Static_assert((number) < EVENT_KIND_COUNT, "event_" #name " has a row in the loss table");
#include "events.def"

/* Bytes of a record without its optional tail. */
enum event_least {
#define EVENT(number, NAME, name, table, min_size, side, place, description) EVENT_##NAME##_LEAST = (min_size),
#include "events.def"
};

/* Columns of EVENT; events.def says what they mean. */
enum event_side { SIDE_HOST = 1, SIDE_DEVICE = 2, SIDE_BOTH = 3 };
enum event_place { PLACE_NONE, PLACE_TIME, PLACE_TIME_OR_NONE, PLACE_CALL };

/* Is it a fact that other records refer to? Facts belong to no step, and no limit leaves them out. The test is of one
 * bit of a constant, because the agent asks this for each record. */
static inline int event_is_fact(unsigned kind)
{
	static const uint64_t facts = 0
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	| (uint64_t)(PLACE_##place == PLACE_NONE) << (number)
#include "events.def"
		;
	return kind < EVENT_KIND_COUNT && facts >> kind & 1;
}

/* Does the writer set the step, so that no record of this kind lies outside of the steps? */
static inline int event_needs_step(unsigned kind)
{
	static const uint64_t needing = 0
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	| (uint64_t)(SIDE_##side == SIDE_HOST && PLACE_##place == PLACE_TIME) << (number)
#include "events.def"
		;
	return kind < EVENT_KIND_COUNT && needing >> kind & 1;
}

enum event_flag {
	EVENT_FLAG_CLIPPED = 1,	    /* still open when the recording ended */
	EVENT_FLAG_ASYNC = 2,	    /* closed by another thread than the one that opened it */
	EVENT_FLAG_DOUBTFUL = 4,    /* within the clock error of a boundary */
	EVENT_FLAG_TIMELESS = 8,    /* of the device side: CUPTI had no times */
	EVENT_FLAG_UNFINISHED = 16, /* of the device side: was still running at the drain */
};

#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	struct event_##name {                                                                                          \
		struct event_head head;
#define FIELD(NAME, name, offset, type, member, role, column, description) type member;
#define END_EVENT(NAME, name, size)                                                                                    \
	}                                                                                                              \
	;
#include "events.def"

#define FIELD(NAME, name, offset, type, member, role, column, description)                                             \
	_Static_assert(offsetof(struct event_##name, member) == (offset), "layout of event_" #name "." #member);
#define END_EVENT(NAME, name, bytes) _Static_assert(sizeof(struct event_##name) == (bytes), "size of event_" #name);
#include "events.def"

enum loss {
#define LOSS(number, NAME, name, is_loss, sentence) LOSS_##NAME = (number),
#include "losses.def"
	LOSS_COUNT = 32 /* room in the segment's loss table */
};
#define LOSS(number, NAME, name, is_loss, sentence)                                                                    \
	_Static_assert((number) < LOSS_COUNT, "loss " #name " has a row in the loss table");
#include "losses.def"

/* Word and sentence of a loss, NULL for a number that is none. */
const char *loss_name(unsigned loss);
const char *loss_sentence(unsigned loss);
/* 1 where the event is not in the capture, 0 where it is but with a defect. */
int loss_is_loss(unsigned loss);

/* The place in the kind's row; PLACE_NONE for a number that nothing writes. */
enum event_place event_place_of(unsigned kind);
/* Name ("range") and table ("ranges") of a kind, NULL for a number that is none. */
const char *event_name(unsigned kind);
const char *event_table(unsigned kind);

enum range_source {
#define RANGE_SOURCE(number, NAME, word) RANGE_SOURCE_##NAME = (number),
#include "enums.def"
	RANGE_SOURCE_COUNT
};
enum step_source {
#define STEP_SOURCE(number, NAME, word, sentence) STEP_SOURCE_##NAME = (number),
#include "enums.def"
	STEP_SOURCE_COUNT
};
enum batches {
#define BATCHES(number, NAME, word) BATCHES_##NAME = (number),
#include "enums.def"
	BATCHES_END
};
/* What a thread did when its stack was sampled: it ran, it slept, or it could have run and had no processor. */
enum sample_state { SAMPLE_UNKNOWN, SAMPLE_RUNNING, SAMPLE_WAITING, SAMPLE_READY, SAMPLE_STATE_COUNT };
/* Which objects Python's collector of garbage went through: generation 0, 1, or 2, which means all objects. */
enum garbage_generation { GARBAGE_ALL = 2, GARBAGE_GENERATION_UNKNOWN = 3 };
/* Does the caller of a collective operation wait for it? And which of the operation's fields are not known. */
enum collective_asynchronous { COLLECTIVE_IS_WAITED_FOR = 1, COLLECTIVE_IS_ASYNCHRONOUS = 2 };
enum collective_unknown {
	COLLECTIVE_UNKNOWN_IN = 1,  /* in_elements */
	COLLECTIVE_UNKNOWN_OUT = 2, /* out_elements */
	COLLECTIVE_UNKNOWN_RANK = 4,
};
/* What torch.compile compiled; AT_RUN_TIME: what it does when its code first runs, such as choosing among kernels. */
enum compile_part { COMPILE_FORWARD, COMPILE_BACKWARD, COMPILE_AT_RUN_TIME };
/* The source that told of an allocation, and what happened. */
enum allocation_source { ALLOCATION_CUPTI = 1, ALLOCATION_POOL = 2, ALLOCATION_TORCH = 3 };
enum allocation_operation {
	ALLOCATION_TAKEN = 1,
	ALLOCATION_GIVEN_BACK = 2,
	ALLOCATION_POOL_CREATED = 3,
	ALLOCATION_POOL_TRIMMED = 4,
	ALLOCATION_POOL_DESTROYED = 5
};
/* What the framework's allocator has told of one block. */
enum allocation_known {
	ALLOCATION_KNOWS_BYTES = 1,  /* how large it is */
	ALLOCATION_KNOWS_TOTALS = 2, /* total and reserved of the device */
	ALLOCATION_CROWDED = 4,	     /* given back, and its size is not known because there was no room to remember all
				 * blocks */
};
/* The device of a framework's block: c10::DeviceType of the host, and the number for a type with only one device. */
enum framework_device { FRAMEWORK_CPU = 0, FRAMEWORK_DEVICE_ALONE = 255 };
/* What a session of CUPTI had on. */
enum session_option {
	SESSION_GRAPHS_WHOLE = 1,    /* CUDA graphs as a whole, without a record for each node */
	SESSION_API_ALL = 2,	     /* all API calls, not only launches, copies and waits */
	SESSION_SHARED = 4,	     /* side by side with another client (multi-subscriber calls) */
	SESSION_FORCED = 8,	     /* the drain ended by force: running operations came without an end */
	SESSION_REPLACED = 16,	     /* another client replaced our buffer callbacks during the capture */
	SESSION_HUNG = 32,	     /* a call of CUPTI did not return in time; the session was abandoned */
	SESSION_CLOCK_STEPPED = 64,  /* CUPTI's clock jumped or changed its rate */
	SESSION_EXHAUSTED = 128,     /* CUPTI gave no buffers back: switched off before the end */
	SESSION_NO_FLUSH = 256,	     /* CUPTI refused to hand its buffers out; they were read in place */
	SESSION_LEFT_ON = 512,	     /* CUPTI refused to switch a kind off: it still costs the job time */
	SESSION_CLOCK_SILENT = 1024, /* CUPTI's clock did not answer any more */
	SESSION_ATTACHED = 2048,     /* the agent came after the process had begun */
	SESSION_API_MAPS =
		4096 /* calls that map memory, also without SESSION_API_ALL; earlier agents did not record them */
};
/* Activity kinds by CUPTI's numbers; sessions.refused has a bit for each. */
enum activity_kind {
	ACTIVITY_COPY = 1,
	ACTIVITY_SET = 2,
	ACTIVITY_DRIVER = 4,
	ACTIVITY_RUNTIME = 5,
	ACTIVITY_PEER_COPY = 22,
	ACTIVITY_SYNC = 38,
	ACTIVITY_MEMORY = 49,
};
/* A word that users know for some kinds, and the bits of these kinds; NULL where i is beyond the last. */
const char *activity_word(unsigned i, uint64_t *ret_kinds);
enum capture_status {
#define CAPTURE_STATUS(number, NAME, word) CAPTURE_##NAME = (number),
#include "enums.def"
	CAPTURE_STATUS_COUNT
};
const char *range_source_word(unsigned source);
const char *step_source_word(unsigned source);
const char *step_source_sentence(unsigned source);
const char *batches_word(unsigned batches);
const char *capture_status_word(unsigned status);
/* As Kineto names them ("HtoD", "Pinned", "Stream Sync"); NULL for a number that CUPTI does not have (yet). */
const char *copy_kind_word(unsigned kind);
const char *memory_kind_word(unsigned kind);
const char *sync_kind_word(unsigned kind);

/* One record out of a buffer of hostile bytes. */
union event_any {
	struct event_head head;
#define EVENT(number, NAME, name, table, min_size, side, place, description) struct event_##name name;
#include "events.def"
};

enum event_verdict {
	EVENT_OK = 0,
	EVENT_END = 1,	   /* the buffer is used up */
	EVENT_UNKNOWN = 2, /* well formed, of a kind or reserved number this release does not read; skipped */
	EVENT_BROKEN = 3,  /* length, alignment or fields are impossible; nothing after the record in this buffer can be
		    * trusted */
};

/* Reads the record at *at of bytes[0..n) into *out (zero-extended) and moves *at past it. `bytes` must be 8-byte
 * aligned private memory, not memory that a peer can still write. On EVENT_UNKNOWN *at moves too and out->head is
 * set. */
enum event_verdict event_read(const void *bytes, size_t n, size_t *at, union event_any *out);

#endif
