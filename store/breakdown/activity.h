/* activity.h - what each thread was doing at each instant, from intervals that may overlap in any way: no nesting is assumed.
 * Times are ns, intervals half-open. */
#ifndef PROFD_STORE_BREAKDOWN_ACTIVITY_H
#define PROFD_STORE_BREAKDOWN_ACTIVITY_H

#include "proto/base/numbered.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a thread does. If it does several things at one instant, the first in this list holds. */
enum doing {
	DOING_TORCH_COMPILE, /* in a compilation by torch.compile */
	DOING_COMPILE,	     /* loads modules, instantiates graphs, compiles */
	DOING_GARBAGE,	     /* Python collects garbage */
	DOING_CAPTURE,	     /* the profiler's own work */
	DOING_SYNC,	     /* waits for the device; blocking copies too */
	DOING_COPY,	     /* a call that copies pageable memory */
	DOING_ALLOC,	     /* takes or gives back memory of a device, or memory that is pinned */
	DOING_SETUP, /* a call of a millisecond or more that is none of the others, while the device has next to nothing to do */
	DOING_COMM, /* the host's part of a collective */
	DOING_LAUNCH,
	DOING_CALL, /* any other call of the driver or the runtime */
	DOING_OPERATOR,
	DOING_OUTSIDE, /* none of these */
	DOING_COUNT
};

/* PHASE_EVALUATION: validation or test, and nobody said which. PHASE_INFERENCE: a network ran without gradient, and nobody said what for. */
enum phase {
	PHASE_NONE,
	PHASE_INPUT,
	PHASE_FORWARD,
	PHASE_BACKWARD,
	PHASE_OPTIMIZER,
	PHASE_ZERO_GRAD,
	PHASE_VALIDATION,
	PHASE_TEST,
	PHASE_EVALUATION,
	PHASE_INFERENCE,
	PHASE_COUNT
};

/* A stretch of a thread's time with one phase and one doing. */
struct activity_segment {
	int64_t start, end;
	uint8_t phase, doing;
};

/* 24 bytes: a capture may have many millions. */
struct activity_span {
	int64_t start, end;
	uint32_t thread;
	uint32_t
		name : 28; /* id in `strings`; 0: none. There is no room for more of them (LIMIT_STRINGS_BYTES). Of a call of a
			      module ACTIVITY_MODULE */
	uint32_t what : 4; /* enum doing, of a mark enum phase */
};

/* A mark that is a call of a module, not anybody's word. */
#define ACTIVITY_MODULE 0xfffffffu

struct activity_spans {
	struct activity_span *items;
	size_t count, room;
};

/* What one thread did, and its segments, without holes, from the first to the last that is known of it. Each segment is kept in 8 bytes:
 * when it begins, and what it is. It ends where the next one begins. */
struct activity_thread {
	uint32_t thread;
	struct activity_spans spans; /* sorted by activity_build(): by start, what encloses first */
	int64_t *segments;	     /* activity_pack() */
	size_t count;
	int64_t end; /* of the last */
};

struct activity {
	struct activity_spans marks;	 /* of phases; by thread and start once it is built */
	struct activity_thread *threads; /* by number, once it is built */
	size_t count, room;
	struct numbered places; /* until then: which of `threads` has this number */
	size_t near;
	uint32_t expected_thread; /* the caller's: most spans are of this thread; about so many; 0: not known */
	size_t expected_spans;
	bool failed; /* there was no memory: nothing of it means anything */
};

/* Times beyond it (a year) are cut to it. */
#define ACTIVITY_TIME_MOST ((INT64_C(1) << 55) - 1)

static inline int64_t activity_pack(int64_t start, uint8_t phase, uint8_t doing)
{
	return start * 256 + (phase << 4 | doing);
}

static inline int64_t activity_start(const struct activity_thread *thread, size_t segment)
{
	return thread->segments[segment] >> 8;
}

static inline int64_t activity_end(const struct activity_thread *thread, size_t segment)
{
	return segment + 1 < thread->count ? activity_start(thread, segment + 1) : thread->end;
}

static inline struct activity_segment activity_segment(const struct activity_thread *thread, size_t segment)
{
	return (struct activity_segment){.start = activity_start(thread, segment),
					 .end = activity_end(thread, segment),
					 .phase = (uint8_t)(thread->segments[segment] >> 4 & 0xf),
					 .doing = (uint8_t)(thread->segments[segment] & 0xf)};
}

/* A span that ends before it starts is left out. */
void activity_add(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum doing doing);
void activity_add_named(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum doing doing,
			uint32_t name);
/* From `start` to `end` the thread is in this phase. If several phases are marked at one instant, the one that began
 * last holds, with exceptions: PHASE_INPUT goes before all others, then PHASE_VALIDATION, PHASE_TEST, PHASE_EVALUATION
 * and PHASE_INFERENCE, in this order. */
void activity_mark(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum phase phase);
/* The same of an operator or a range of this name. */
void activity_mark_named(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum phase phase,
			 uint32_t name);
/* The same of a call of a module. */
void activity_mark_module(struct activity *activity, uint32_t thread, int64_t start, int64_t end);
/* Makes the threads' segments. False: no memory. Nothing may be added afterwards. */
bool activity_build(struct activity *activity);
/* NULL where nothing is known of the thread. */
const struct activity_thread *activity_find(const struct activity *activity, uint32_t thread);
/* The first segment that ends after `time`, or the count. */
size_t activity_at(const struct activity_thread *thread, int64_t time);
/* The same, for times that follow each other closely. *near is the place for the time before, at first any value; it
 * becomes the new place. */
size_t activity_near(const struct activity_thread *thread, int64_t time, size_t *near);
void activity_free(struct activity *activity);

#endif
