/* nest.h - which of nested calls on a thread is the outermost? Only the outermost call is a step.
 *
 * Each thread has an entry for each kind, and only that thread writes to it. No locks, no allocation. */
#ifndef PROFD_AGENT_STEPS_NEST_H
#define PROFD_AGENT_STEPS_NEST_H

#include "agent/core/own.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum nest {
	NEST_OPTIMIZER, /* Optimizer.step, for the life of the process */
	NEST_NAMED,	/* Optimizer.step of an optimizer that a capture names */
	NEST_LOADER,	/* a DataLoader's `__next__` */
	NEST_COUNT,
};

/* After so many inner calls the end of the outer call counts as lost (the job switched stacks by itself, or a
 * longjmp). */
#define NEST_INSIDE_MOST 64u

#define NEST_NAME_BYTES 64

struct nest_entry {
	/* For NEST_OPTIMIZER, written by torch's collector: the name of the thread's last step, where its last word of
	 * 8 bytes begins, and which bytes of that word belong to the name. */
	char step_name[NEST_NAME_BYTES];
	uint64_t name_last, name_mask;
	uint32_t class_bytes; /* length of the class's name in step_name; 0: there is none */
	_Atomic uint64_t key; /* 0 = free */
	uint32_t depth, inside, era;
} __attribute__((aligned(128)));

/* The calling thread's entry of NEST_OPTIMIZER; NULL: it has not been looked up yet. */
OWN __thread struct nest_entry *nest_own;
OWN _Atomic uint32_t nest_eras[NEST_COUNT];
/* Finds the calling thread's entry. Without one, makes it if `make`, else returns NULL; also NULL where the table is
 * full. */
struct nest_entry *nest_find(enum nest kind, int make);

static inline struct nest_entry *nest_entry(enum nest kind, int make)
{
	struct nest_entry *e = kind == NEST_OPTIMIZER ? nest_own : NULL;
	return __builtin_expect(e && e->era == atomic_load_explicit(&nest_eras[kind], memory_order_relaxed), 1)
		       ? e
		       : nest_find(kind, make);
}

/* The calling thread enters a call: 1 where it is the outermost. For a thread without an entry each call is. */
static inline int nest_enter(enum nest kind)
{
	struct nest_entry *e = nest_entry(kind, 1);
	return !e || !e->depth++;
}

/* The calling thread leaves a call: 1 where that was the outermost. */
static inline int nest_leave(enum nest kind)
{
	struct nest_entry *e = nest_entry(kind, 0);
	if (!e || !e->depth)
		return 1;
	if (--e->depth == 0) {
		e->inside = 0;
		return 1;
	}
	if (++e->inside >= NEST_INSIDE_MOST)
		e->depth = e->inside = 0;
	return 0;
}

/* Is the calling thread inside of a call of this kind? */
static inline int nest_inside(enum nest kind)
{
	struct nest_entry *e = nest_entry(kind, 0);
	return e && e->depth;
}

/* Forgets all open calls of this kind, because they belong to another capture. */
void nest_forget(enum nest kind);

#endif
