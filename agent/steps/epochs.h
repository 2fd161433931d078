/* epochs.h - where a new pass over the DataLoader that trains begins, by what its iterators tell at each request for a batch. The loader is the one
 * whose batch trains first; passes over others lie within an epoch. Of the watched thread, for watched.c. */
#ifndef PROFD_AGENT_STEPS_EPOCHS_H
#define PROFD_AGENT_STEPS_EPOCHS_H

#include "steps.h"

/* So many requests in a row of which nothing could be read: it will not be. */
#define EPOCHS_BLIND 8u

/* Begins as zeros. */
struct epochs {
	uint64_t sequence;	/* autograd's number at the last request */
	struct steps_pass last; /* the last request */
	/* The last request of the loader that trains after which a batch trained. */
	struct steps_pass training;
	/* Until there is one: that of some loader. */
	struct steps_pass perhaps;
	uint32_t blind;
};

/* A batch is asked for, `sequence` being autograd's number. Is it the first one of a new pass over the loader that trains? */
bool epochs_begins(struct epochs *epochs, uint64_t sequence, const struct steps_pass *pass);
/* Another thread goes on, which has another number. */
void epochs_move(struct epochs *epochs);

#endif
