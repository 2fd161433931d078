/* batches.h - what batches of a DataLoader were for: counted in the thread that steps, also while nobody records. For steps.c. */
#ifndef PROFD_AGENT_STEPS_BATCHES_H
#define PROFD_AGENT_STEPS_BATCHES_H

#include "proto/purpose.h"
#include "proto/status.h"

#include <stdbool.h>

/* The request that finds a loader at its end, and what follows up to the next loader's first batch, look like a batch that does not train. Of
 * these there is one at a time. */
#define BATCHES_IDLE_LEAST 2

/* A batch begins there in the calling thread; `sequence`: autograd's number. Returns what the one was for that ends with it: PURPOSE_TRAINING, or what the
 * functions say that asked for it, else PURPOSE_NONE. `exactly`: its functions are looked at, however lately others were. */
enum purpose batches_next(uint64_t now, uint64_t sequence, uintptr_t me, bool exactly, struct status_page *page);
void batches_publish(struct status_page *fresh);
void batches_forget(void);

#endif
