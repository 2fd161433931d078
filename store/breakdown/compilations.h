/* compilations.h - compilations by torch.compile (compile_events), and which of them were in the step's thread: for
 * load.c. torch does not list the thread, but the operators that the thread runs tell it. */
#ifndef PROFD_STORE_BREAKDOWN_COMPILATIONS_H
#define PROFD_STORE_BREAKDOWN_COMPILATIONS_H

#include "meanings.h"
#include "phases.h"

/* Further ones are not read: torch lists 64. */
#define COMPILATIONS_MOST 256

struct compilation {
	int64_t start, end;
	int64_t row; /* rowid in compile_events */
	uint32_t function;
	bool again; /* the function had been compiled before */
	uint8_t part;
	bool of_step_thread;
	/* The last operator that the step's thread began before the compilation: when, and whether it was torch's
	 * search for compiled code. */
	int64_t before;
	bool searched;
};

struct compilations {
	struct compilation items[COMPILATIONS_MOST]; /* by start */
	size_t count;
};

/* Reads the compilations of a file that has them. */
void compilations_read(struct compilations *compilations, struct scan *scan);
/* Takes an operator of the step's thread. */
void compilations_take(struct compilations *compilations, int64_t start, int64_t end, const struct meaning *name);
/* Call it once all operators were taken. Finds the compilations of the step's thread, adds them to its activity, and
 * takes the operators that torch ran in them out of `phases`: torch only tried what a network would do. */
void compilations_mark(struct compilations *compilations, const struct breakdown *breakdown, struct phases *phases,
		       struct activity *activity);

#endif
