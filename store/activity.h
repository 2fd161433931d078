/* activity.h - what each thread was doing at each instant, from intervals that may overlap in any way: no nesting is assumed.
 * Times are ns, intervals half-open. */
#ifndef PROFD_STORE_ACTIVITY_H
#define PROFD_STORE_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a thread does; of several at one instant the first in this list. */
enum doing {
	DOING_COMPILE, /* loads modules, instantiates graphs, compiles */
	DOING_CAPTURE, /* the profiler's own work */
	DOING_SYNC,    /* waits for the device; blocking copies too */
	DOING_COPY,    /* a call that copies pageable memory */
	DOING_ALLOC,   /* takes or gives back memory of a device, or memory that is pinned */
	DOING_SETUP, /* a call of a millisecond or more that is none of the others, while the device has next to nothing to do */
	DOING_COMM, /* the host's part of a collective */
	DOING_LAUNCH,
	DOING_CALL, /* any other call of the driver or the runtime */
	DOING_OPERATOR,
	DOING_OUTSIDE, /* none of these */
	DOING_COUNT
};

enum phase { PHASE_NONE, PHASE_INPUT, PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER, PHASE_ZERO_GRAD, PHASE_COUNT };

/* A stretch of a thread's time with one phase and one doing. */
struct activity_segment {
	int64_t start, end;
	uint8_t phase, doing;
};

struct activity_span {
	int64_t start, end;
	uint32_t thread;
	uint32_t name; /* id in `strings`; 0: none */
	uint8_t what;  /* enum doing, of a mark enum phase */
};

struct activity_spans {
	struct activity_span *items;
	size_t count, room;
};

struct activity_thread {
	uint32_t thread;
	struct activity_segment *segments; /* without holes, from the first to the last that is known of the thread */
	size_t count;
};

struct activity {
	struct activity_spans spans; /* what was done */
	struct activity_spans marks; /* of phases */
	struct activity_thread *threads;
	size_t count;
	bool failed; /* there was no memory: nothing of it means anything */
};

/* A span that ends before it starts is left out. */
void activity_add(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum doing doing);
void activity_add_named(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum doing doing,
			uint32_t name);
/* From `start` to `end` the thread is in this phase. Of several at one instant the one that began last holds; but nothing holds
 * against PHASE_INPUT. */
void activity_mark(struct activity *activity, uint32_t thread, int64_t start, int64_t end, enum phase phase);
/* Makes the threads' segments. False: no memory. Nothing may be added afterwards. */
bool activity_build(struct activity *activity);
/* NULL where nothing is known of the thread. */
const struct activity_thread *activity_find(const struct activity *activity, uint32_t thread);
/* The first segment that ends after `time`, or the count. */
size_t activity_at(const struct activity_thread *thread, int64_t time);
/* The same. `near`, of which any value will do, is where it was for a time shortly before; the new place is put there. */
size_t activity_near(const struct activity_thread *thread, int64_t time, size_t *near);
void activity_free(struct activity *activity);

#endif
