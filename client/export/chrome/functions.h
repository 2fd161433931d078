/* functions.h - calls of functions and modules of Python, as the stacks of operators show them: a call runs from the first operator that was
 * called in it to the end of the last one, and around ranges that began in it. What runs no operator is not seen.
 *
 * Two operators one after the other are taken for operators of one call if their stacks are the same down to a
 * function, and down to the line of its caller. This does not hold across steps, nor if it is known that a module was
 * called anew. Operators in the backward have the stack of their forward, and are left out. Memory: 32 bytes a call,
 * FUNCTION_CALLS_MAX of them at most. */
#ifndef PROFD_CLIENT_EXPORT_CHROME_FUNCTIONS_H
#define PROFD_CLIENT_EXPORT_CHROME_FUNCTIONS_H

#include "client/reader/reader.h"
#include "function_frames.h"
#include "nesting.h"

#include <stddef.h>
#include <stdint.h>

#define FUNCTION_CALLS_MAX 2000000

struct function_call {
	uint32_t frame;	 /* the last one that it had */
	uint32_t parent; /* place of the call around it + 1; 0 = none */
};

struct functions {
	struct function_frames frames;
	struct nesting_slice *slices; /* of the calls; a call comes before those that it made */
	struct function_call *calls;
	size_t count, slice_room, call_room;
	size_t collections; /* from this place on: not calls, but stretches of garbage collection. `frame` is the generation */
	uint64_t left_out; /* calls for which there was no room */
};

struct chrome;

/* 0 or a negative errno; nothing where stacks of operators were not recorded. functions_deinit() in either case. */
int functions_find(struct functions *f, const struct reader *r);
/* About how many calls there are in so many operators of the capture: as many as in the first ones. 0 where they cannot be found. */
int64_t functions_estimate(const struct reader *r, int64_t operators);
/* Adds the stretches in which Python's collector of garbage ran on a thread that is known. 0 or a negative errno. */
int functions_add_collections(struct functions *f, const struct reader *r);
/* Writes one call, or one stretch, where it reaches into the part that is written. */
void functions_put(const struct chrome *c, struct buffer *b, size_t call, uint8_t lane, int64_t event_index);
void functions_deinit(struct functions *f);

#endif
