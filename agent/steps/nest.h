/* nest.h - of calls that lie in each other on a thread, which is the outermost? A step is, the ones inside of it are not. */
#ifndef PROFD_AGENT_STEPS_NEST_H
#define PROFD_AGENT_STEPS_NEST_H

#include <stdint.h>

enum nest {
	NEST_OPTIMIZER, /* Optimizer.step, for the life of the process */
	NEST_NAMED,	/* that of an optimizer which a capture names */
	NEST_COUNT,
};

/* The calling thread enters one. Returns where it may keep a word until it leaves the outermost one; NULL where it is
 * inside of one already. */
uint64_t *nest_enter(enum nest kind);
/* It leaves one: 1 and the word where that was the outermost. */
int nest_leave(enum nest kind, uint64_t *ret_word);
/* Is the calling thread inside of one? */
int nest_inside(enum nest kind);
/* What is open now is forgotten: another capture's. */
void nest_forget(enum nest kind);

#endif
