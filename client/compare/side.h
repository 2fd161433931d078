/* side.h - one side of a comparison: a capture, or several (the ranks of a job, repeated recordings), and the steps that count. What
 * is compared is a unit: a step, averaged over the ranks that recorded it together. One thread. */
#ifndef PROFD_CLIENT_COMPARE_SIDE_H
#define PROFD_CLIENT_COMPARE_SIDE_H

#include "client/reader/capture.h"
#include "shift.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each has an open file. */
#define SIDE_CAPTURES_MOST 256

struct side_step {
	int64_t ordinal; /* in the capture, from 1 */
	int64_t number;	 /* the process's own; 0: a window of time */
	int64_t start, wall;
	unsigned holds; /* of enum breakdown_held: what others do not hold, for which it is left out */
	size_t unit;	/* SIZE_MAX: was not chosen */
};

struct side_capture {
	struct capture capture;
	struct side_step *steps; /* by start */
	size_t count;
	struct side_step **by_ordinal;
};

struct side {
	const char *word; /* as the user named it */
	struct side_capture *captures;
	size_t count;
	size_t units;
	double *ranks; /* of each unit: captures that have it */
	double *walls; /* of each unit, ns */
	bool window;   /* of time, and not steps */
	unsigned held;
	size_t left_out; /* steps that hold what is told in `held` (enum breakdown_held), where nobody has named steps and others hold none */
	struct shift_blocks blocks;
};

/* -1: not known. */
int64_t side_rank(const struct side_capture *capture);
/* Were both recorded by the clock of one machine? Then *ret_later is what makes times of the one, added to them, times of the other. */
bool side_clock(struct side_capture *one, struct side_capture *other, int64_t *ret_later);

/* Opens what a word names. EXIT_DONE, or an exit code after its sentence. side_close in every case. */
int side_open(const char *word, struct side *side);
/* The same of several words, whole captures; side->word is the first one. */
int side_open_all(const char *const *words, size_t count, struct side *side);
void side_close(struct side *side);

/* Decides, once both are open, which of their units the tests get. */
void side_pair(struct side *a, struct side *b);
/* The unit of a step, by its ordinal; SIZE_MAX: none. */
size_t side_unit(const struct side_capture *capture, int64_t ordinal);
/* Mean of a step's wall time, ns. */
double side_wall(const struct side *side);
/* The values of its units for the test, in `to`: side->blocks.count of them. */
void side_walls(const struct side *side, double *to);

#endif
