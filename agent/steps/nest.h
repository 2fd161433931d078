/* nest.h - of calls that lie in each other on a thread, which is the outermost? A step is, the ones inside of it are not.
 *
 * An entry for each thread and kind, which the thread alone writes to; no locks, nothing allocated. */
#ifndef PROFD_AGENT_STEPS_NEST_H
#define PROFD_AGENT_STEPS_NEST_H

#include "agent/core/own.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum nest {
	NEST_OPTIMIZER, /* Optimizer.step, for the life of the process */
	NEST_NAMED,	/* that of an optimizer which a capture names */
	NEST_LOADER,	/* a DataLoader's `__next__` */
	NEST_COUNT,
};

/* So many inside of one that never ends: its end was lost (a context switch of the job's own, a longjmp). */
#define NEST_INSIDE_MOST 64u

#define NEST_NAME_BYTES 64

struct nest_entry {
	/* Of NEST_OPTIMIZER, for whoever enters it: the name that the thread's steps had last, where its last word begins, and which
	 * bytes of that are the name's. */
	char step_name[NEST_NAME_BYTES];
	uint64_t name_last, name_mask;
	uint32_t class_bytes; /* of the class's name in step_name; 0: there is none */
	_Atomic uint64_t key; /* 0 = free */
	uint32_t depth, inside, era;
} __attribute__((aligned(128)));

/* The calling thread's entry of NEST_OPTIMIZER; NULL: it has not looked for it. */
OWN __thread struct nest_entry *nest_own;
OWN _Atomic uint32_t nest_eras[NEST_COUNT];
/* Finds the calling thread's entry; makes one, or returns NULL. */
struct nest_entry *nest_find(enum nest kind, int make);

static inline struct nest_entry *nest_entry(enum nest kind, int make)
{
	struct nest_entry *e = kind == NEST_OPTIMIZER ? nest_own : NULL;
	return __builtin_expect(e && e->era == atomic_load_explicit(&nest_eras[kind], memory_order_relaxed), 1)
		       ? e
		       : nest_find(kind, make);
}

/* The calling thread enters one: 1 where that is the outermost. So is all that a thread does for which there is no room. */
static inline int nest_enter(enum nest kind)
{
	struct nest_entry *e = nest_entry(kind, 1);
	return !e || !e->depth++;
}

/* It leaves one: 1 where that was the outermost. */
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

/* Is the calling thread inside of one? */
static inline int nest_inside(enum nest kind)
{
	struct nest_entry *e = nest_entry(kind, 0);
	return e && e->depth;
}

/* What is open now is forgotten: another capture's. */
void nest_forget(enum nest kind);

#endif
