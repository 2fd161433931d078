/* epochs.h - finds where a new pass over the training DataLoader begins, from what its iterator tells at each request
 * for a batch. The training loader is the first one whose batch trains; passes over other loaders lie within an epoch.
 * For the watched thread; used by watched.c. */
#ifndef PROFD_AGENT_STEPS_EPOCHS_H
#define PROFD_AGENT_STEPS_EPOCHS_H

#include "steps.h"

/* After so many requests in a row that could not be read, none will be. */
#define EPOCHS_BLIND 8u

/* Begins as zeros. */
struct epochs {
	uint64_t sequence;	/* autograd's number at the last request */
	struct steps_pass last; /* the last request */
	/* The last request to the training loader after which something trained. */
	struct steps_pass training;
	/* Until `training` is known: the last such request to any loader. */
	struct steps_pass perhaps;
	uint32_t blind;
};

/* A batch is asked for, `sequence` being autograd's number. Is it the first one of a new pass over the loader that trains? */
bool epochs_begins(struct epochs *epochs, uint64_t sequence, const struct steps_pass *pass);
/* Another thread goes on; its autograd numbers cannot be compared with those before. */
void epochs_move(struct epochs *epochs);

#endif
