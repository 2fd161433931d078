/* sample_sums.h - what a while of looking at processes adds up to: time at lines and in functions, of all processes together. */
#ifndef PROFD_CLIENT_STACK_SAMPLE_SUMS_H
#define PROFD_CLIENT_STACK_SAMPLE_SUMS_H

#include "sample.h"

/* Time at a line or in a function, ns. */
struct sample_sum {
	const struct sample_place *place; /* NULL: no Python */
	double runs, waits;
	double self_runs, self_waits;	    /* in the function itself, and in what of it is no Python */
	const struct sample_stack *counted; /* the last one that did */
};

struct sample_sums {
	void *tree;
	int (*order)(const void *a, const void *b);
	struct sample_sum **rows;
	size_t count, room;
};

struct sample_whole {
	struct sample_sums lines, functions; /* what ran longest first */
	double runs;			     /* all threads */
};

void sample_sum_up(const struct samples *samples, struct sample_whole *ret);
void sample_whole_free(struct sample_whole *whole);

/* So many looks as time, ns. */
double sample_ns(const struct sample_process *row, uint64_t looks);
/* The line where a thread was longest; NULL: no Python. */
const struct sample_place *sample_mostly(const struct sample_process *row, size_t thread);

#endif
