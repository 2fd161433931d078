/* ranks.h - the processes of a job side by side: where the main thread of each stands, and which one stands elsewhere than the others. */
#ifndef PROFD_CLIENT_STACK_RANKS_H
#define PROFD_CLIENT_STACK_RANKS_H

#include "read.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stack_rank {
	struct stack_process *process;
	int rank; /* -1: not known */
	int elsewhere; /* 1: its main thread stood in other lines when it was looked at before; 0: in the same; -1: not known */
	int moved; /* 1: it did, or had a processor in between: a loop may be in one line at most times; 0; -1: not known */
	size_t place; /* those with the same number stand in the same place, from 1 on; 0: it could not be read */
	double alike; /* with the others, 0 to 1: how much of their stacks is the same, from the outermost frame on */
};

struct stack_ranks {
	struct stack_rank *rows; /* those that could not be read first, then the one that is least like the others */
	size_t count, places;
	int64_t between; /* ns from the first look at them to the second */
};

/* The caller adds processes, then has all of them read and compared: twice, with a moment in between. Places are those of
 * Python: native frames are not compared. */
void stack_ranks_add(struct stack_ranks *ranks, int64_t pid, int rank);
void stack_ranks_read(struct stack_ranks *ranks, bool native);
void stack_ranks_free(struct stack_ranks *ranks);

#endif
