/* batches.h - counts what the batches of a DataLoader were for, in the thread that steps, also while nothing is
 * recorded. For steps.c. */
#ifndef PROFD_AGENT_STEPS_BATCHES_H
#define PROFD_AGENT_STEPS_BATCHES_H

#include "proto/purpose.h"
#include "proto/status.h"

#include <stdbool.h>

/* The last request to a loader gets no batch, and looks like a batch that does not train. Only one comes at a time, so
 * two in a row are real batches. */
#define BATCHES_IDLE_LEAST 2

/* What the thread has done up to a request: autograd's number, and how many steps its optimizers (or profd_step()) have
 * made; a thread without steps has any constant. */
struct batches_seen {
	uint64_t sequence, steps;
};

/* A batch begins in the calling thread. Returns what the batch before was for: PURPOSE_TRAINING, or what the functions
 * that asked for it say, else PURPOSE_NONE. `exactly`: the functions are looked at for each batch. */
enum purpose batches_next(uint64_t now, const struct batches_seen *seen, uintptr_t me, bool exactly,
			  struct status_page *page);
void batches_publish(struct status_page *fresh);
void batches_forget(void);

#endif
