/* fold.h - decides, while records go by, which operators are calls of their own, by the rule of fold_rule.h. Rows do
 * not change.
 *
 * Records of one thread come in the order of their ends, so children come before their parents. For each thread and
 * depth, one undecided child waits in memory for its parent. Clipped records come in any order, and wait for the end.
 * No locks: it belongs to the totals' owner. */
#ifndef PROFD_STORE_FOLD_H
#define PROFD_STORE_FOLD_H

#include "proto/base/memory.h"
#include "fold_rule.h"
#include "proto/events.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fold_node; /* what a record says of its place */
struct fold_thread;

struct fold {
	struct fold_thread *threads; /* open addressing, capacity a power of two */
	size_t count, capacity;
	struct fold_node *clipped;
	size_t clipped_count, clipped_capacity;
	/* Called once for each call, as soon as that is decided. */
	fold_decided *call;
	void *context;
	struct memory *memory; /* not owned */
	bool broken;	       /* a bound was reached, or records came in another order: nothing here may be used */
};

void fold_deinit(struct fold *fold);
/* The records that follow were written by this thread into the chunk of that sequence. */
void fold_chunk(struct fold *fold, uint32_t writer, uint32_t sequence);
/* Takes an operator or a range. */
void fold_add(struct fold *fold, const union event_any *event);
/* No more records come: decides about those that wait. */
void fold_end(struct fold *fold);

#endif
