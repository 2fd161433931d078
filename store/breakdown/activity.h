/* activity.h - what each thread was doing at each instant, from intervals that may overlap in any way: no nesting is assumed.
 * Times are ns, intervals half-open. */
#ifndef PROFD_STORE_BREAKDOWN_ACTIVITY_H
#define PROFD_STORE_BREAKDOWN_ACTIVITY_H

#include "proto/base/numbered.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a thread does. If it does several things at one instant, the first in this list counts. */
enum doing {
	DOING_TORCH_COMPILE, /* in a compilation by torch.compile */
	DOING_COMPILE,	     /* loads modules, instantiates graphs, compiles */
	DOING_GARBAGE,	     /* Python collects garbage */
	DOING_CAPTURE,	     /* the profiler's own work */
	DOING_SYNC,	     /* waits for the device, or makes a blocking copy */
	DOING_COPY,	     /* a call that copies pageable memory */
	DOING_ALLOC,	     /* takes or gives back memory of a device, or pinned memory */
	DOING_SETUP, /* any other call that lasts a millisecond or more while the device has next to nothing to do */
	DOING_COMM,  /* the host's part of a collective */
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
		name : 28; /* id in `strings` (more ids do not fit into LIMIT_STRINGS_BYTES); 0: none; ACTIVITY_MODULE: a call of a module */
	uint32_t what : 4; /* enum doing; for a mark enum phase */
};

/* The mark is a call of a module: nobody stated its phase. */
#define ACTIVITY_MODULE 0xfffffffu

struct activity_spans {
	struct activity_span *items;
	size_t count, room;
};

/* What one thread did. Its segments have no holes from the first to the last thing that is known of it. Each segment
 * takes 8 bytes: when it begins, and what it is. It ends where the next one begins. */
struct activity_thread {
	uint32_t thread;
	struct activity_spans spans; /* sorted by activity_build(): by start, an enclosing span first */
	int64_t *segments;	     /* see activity_pack() */
	size_t count;
	int64_t end; /* of the last segment */
};

struct activity {
	struct activity_spans marks;	 /* of phases; sorted by thread and start by activity_build() */
	struct activity_thread *threads; /* sorted by number by activity_build() */
	size_t count, room;
	struct numbered places; /* before activity_build(): a thread's number gives its index in `threads` */
	size_t near;
	uint32_t expected_thread; /* set by the caller: the thread of most spans, and about how many; 0: not known */
	size_t expected_spans;
	bool failed; /* there was no memory: the rest means nothing */
};

/* Later times (over a year) are cut to this. */
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
/* The same for an operator or a range of this name. */
void activity_mark_named(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum phase phase,
			 uint32_t name);
/* The same for a call of a module. */
void activity_mark_module(struct activity *activity, uint32_t thread, int64_t start, int64_t end);
/* Makes the threads' segments. False: no memory. Nothing may be added afterwards. */
bool activity_build(struct activity *activity);
/* NULL: nothing is known of the thread. */
const struct activity_thread *activity_find(const struct activity *activity, uint32_t thread);
/* The first segment that ends after `time`, or the count. */
size_t activity_at(const struct activity_thread *thread, int64_t time);
/* The same, for times that follow each other closely. *near is the place for the time before (any value at first),
 * and becomes the new place. */
size_t activity_near(const struct activity_thread *thread, int64_t time, size_t *near);
void activity_free(struct activity *activity);

#endif
